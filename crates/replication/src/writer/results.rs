//! Results of a writer.

use std::error::Error;
use std::fmt;

use bytes::Bytes;

use crate::append::AppendError;
use crate::incarnation::Incarnation;
use crate::place::{Position, StreamSequence};

/// Entry to append to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Incarnation of the writer.
    pub incarnation: Incarnation,
    /// Number of the entry.
    pub number: u64,
    /// Encoded entry.
    pub bytes: Bytes,
}

/// Append that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished<T> {
    /// Token of the caller.
    pub token: T,
    /// Position of the first command.
    pub first: Position,
    /// Number of commands.
    pub commands: usize,
}

/// Append that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<T> {
    /// Token of the caller.
    pub token: T,
    /// Reason.
    pub error: AppendError,
}

/// Error: an entry counts under this node's incarnation but was not written by this node. Another
/// process, perhaps a copy of this one, writes under the same incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOurs {
    /// Sequence of the entry.
    pub sequence: StreamSequence,
}

impl fmt::Display for NotOurs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "entry {} of the log has this node's incarnation but was not written by this node: \
             another process, perhaps a copy of this machine, writes as this node; restart this \
             node",
            self.sequence
        )
    }
}

impl Error for NotOurs {}
