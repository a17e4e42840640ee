//! Violations of rules.

use std::fmt;

/// A violation of a rule. Displays as `place: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A crate, a file or `file:line`.
    pub place: String,
    /// What is wrong and how to correct it.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(place: impl fmt::Display, message: impl Into<String>) -> Self {
        Self {
            place: place.to_string(),
            message: message.into(),
        }
    }

    pub(crate) fn at_line(file: &str, number: usize, message: impl Into<String>) -> Self {
        Self::new(format_args!("{file}:{number}"), message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}
