//! Rules on the workspace itself, checked by `cargo test -p tidy`.
//!
//! Each module holds one rule: a function that takes text and returns a [`Finding`] for each place
//! that breaks it. The tests in `tests/workspace.rs` apply them to this repository. No crate may
//! depend on this one.

/// What breaks a rule, and where.
mod finding;
/// Files of the repository.
pub mod files;
/// Dependencies: which crate may use which, and which libraries it must never reach.
pub mod dependencies;
/// Notes on the libraries that crates name.
pub mod notes;
/// Fuzz targets: their inputs, and what is written about them.
pub mod fuzzing;
/// Modules of the binary that must not use some crates.
pub mod uses;
/// `clippy.toml`: prohibitions of all crates are repeated where a crate has its own.
pub mod prohibitions;
/// `lib.rs` as a table of contents: one line of documentation for each module.
pub mod contents;
/// Width of lines.
pub mod columns;
/// Length of files.
pub mod length;
/// Comments that name a line number.
pub mod line_numbers;

pub use finding::Finding;
