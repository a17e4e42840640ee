//! Rules on the workspace itself, checked by `cargo test -p tidy`.
//!
//! Each module has one rule: a function that takes text and returns a [`Finding`] for each
//! violation. The tests in `tests/workspace.rs` apply them to this repository. No crate may depend
//! on this one.

/// Violations of rules.
mod finding;
/// Files of the repository.
pub mod files;
/// Dependencies: which crates and libraries each crate may depend on.
pub mod dependencies;
/// `docs/DEPENDENCIES.md`: a note on each library.
pub mod notes;
/// Fuzz targets: their inputs, documentation and regression tests.
pub mod fuzzing;
/// `clippy.toml`: a crate's own file must repeat the prohibitions of the one at the top.
pub mod prohibitions;
/// `lib.rs` as a table of contents: one line of documentation for each module.
pub mod contents;
/// Width of lines.
pub mod columns;
/// Pages in Markdown: width of lines, length of sentences.
pub mod prose;
/// Stairs: modules that use each other in a circle.
pub mod stairs;
/// Comments that name a line number.
pub mod line_numbers;

pub use finding::Finding;
