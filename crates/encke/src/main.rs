//! The `encke` command.

fn main() {}
