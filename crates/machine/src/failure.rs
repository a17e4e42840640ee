//! Error type of the tools: a sentence with its remedy.

use std::fmt;
use std::io;

/// Result of an operation of the tools.
pub type Outcome<T> = Result<T, Failure>;

/// Error as one sentence: what was found, what was needed and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// Creates a failure with this text.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::other(failure)
    }
}

/// Extension of `Result` that adds what was being done.
pub trait Context<T> {
    /// Turns an error into a [`Failure`] with the text `what: error`.
    ///
    /// # Errors
    ///
    /// If `self` is an error.
    fn context(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}
