//! The one error of the tools: a sentence for a person, with the remedy in it.

use std::fmt;
use std::io;

/// Result of a tool's step.
pub type Outcome<T> = Result<T, Failure>;

/// Why a tool stopped: what was found, what was needed and what to do, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// A failure that reads as `sentence`.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::other(failure)
    }
}

/// Says what was being done when the system refused.
pub trait Context<T> {
    /// Turns an error into the sentence `what: error`.
    ///
    /// # Errors
    ///
    /// The sentence `what: error`, if `self` is an error.
    fn context(self, what: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}
