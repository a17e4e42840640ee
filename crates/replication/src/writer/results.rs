//! What a writer gives back.

use std::error::Error;
use std::fmt;

use bytes::Bytes;

use crate::append::AppendError;
use crate::incarnation::Incarnation;
use crate::place::{Position, StreamSequence};

/// Entry to append to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The writer's incarnation.
    pub incarnation: Incarnation,
    /// Number of the entry.
    pub number: u64,
    /// The entry.
    pub bytes: Bytes,
}

/// Append that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished<T> {
    /// What the caller gave with it.
    pub token: T,
    /// Position of its first command.
    pub first: Position,
    /// Number of its commands.
    pub commands: usize,
}

/// Append that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<T> {
    /// What the caller gave with it.
    pub token: T,
    /// The reason.
    pub error: AppendError,
}

/// An entry that counts under this node's incarnation, and was not written by it: another process,
/// a copy of this one perhaps, writes under the same incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOurs {
    /// The place of the entry.
    pub sequence: StreamSequence,
}

impl fmt::Display for NotOurs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "entry {} of the log has this node's incarnation, and this node has not written it: \
             another process writes as this node, a copy of this machine perhaps; restart this \
             node",
            self.sequence
        )
    }
}

impl Error for NotOurs {}
