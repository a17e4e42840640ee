//! Why the graph refused.

use std::error::Error;
use std::fmt;

/// Why the graph could not do what was asked. Nothing was changed. Returned to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// Every key for ids that are not their own key is taken.
    DictionaryFull {
        /// The ids interned where this one belongs.
        entries: usize,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DictionaryFull { entries } => write!(
                f,
                "the dictionary shard of this id is full with {entries} ids that are text or \
                 integers of 2^31 and more; remove ids that are not needed, or use integers below \
                 2^31, which need no dictionary"
            ),
        }
    }
}

impl Error for GraphError {}
