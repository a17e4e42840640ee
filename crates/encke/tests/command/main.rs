//! The `encke` command as others meet it: the real binary, its output, its exit codes.

mod support;

mod activation;
mod clients;
mod ending;
mod help;
mod starting;
