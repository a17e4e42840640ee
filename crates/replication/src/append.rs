//! Appending to the log, as publishers see it.

use std::error::Error;
use std::fmt::{self, Debug};
use std::time::Duration;

use graph::{Effect, GraphError};

use crate::command::Command;
use crate::place::Position;
use crate::report::{DrainDone, DrainError};
use crate::status::Status;

/// Called once with the outcome, from any thread. It must not block.
pub type Done = Box<dyn FnOnce(Result<Applied, AppendError>) + Send>;

/// The log, for those who publish and change.
pub trait Append: Debug + Send + Sync {
    /// Appends commands, which count together or not at all and have consecutive positions. Calls
    /// `done` once: when this node has applied the entry that has them and `wait` is over, or with
    /// the reason why not. Commands of one thread keep their order.
    fn append(&self, commands: Vec<Command>, wait: Wait, done: Done);

    /// Returns the status of this node in its cluster.
    fn status(&self) -> Status;

    /// Asks a node by its name to send its clients elsewhere and to end. Calls `done` once: when
    /// the node has said that it does so, or with the reason why that is not known. A log without
    /// nodes says that none can be reached.
    fn drain(&self, node: &str, done: DrainDone) {
        let _ = node;
        done(Err(DrainError::Unreachable));
    }
}

/// What an append waits for, beyond its entry being applied by this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing else.
    Logged,
    /// Until every node has said what became of the events there, or a second has passed.
    Delivered,
}

/// Commands that count, and were applied by this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Position of the first command; that of a command at index `i` is `i` more.
    pub first: Position,
    /// Result of each command, in order.
    pub results: Vec<CommandResult>,
    /// Nodes whose answers are part of the results, this one included.
    pub nodes: u32,
    /// Names of the nodes that did not answer in time. With [`Wait::Logged`] it is empty: none was
    /// asked.
    pub missing: Vec<Box<str>>,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandResult {
    /// What became of an event: the sums over all nodes that answered.
    Event {
        /// Its position.
        position: Position,
        /// Subscribers of the subject, and the subject itself, at that position.
        subscribers: u64,
        /// Sessions it was for.
        online: u64,
        /// Sessions whose socket took it.
        written: u64,
        /// Sessions that will get it later.
        queued: u64,
        /// Sessions that lost it.
        shed: u64,
    },
    /// What became of a change.
    Change(Result<Effect, GraphError>),
    /// A command that has no result.
    None,
}

/// Reason why commands were not appended, or why that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendError {
    /// The log cannot be reached. The commands do not count, and may be appended again.
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// Whether the commands count is not known: they may be applied later, or never.
    Unknown,
    /// The commands, or a part of one, have more bytes than an entry may have. They do not count.
    TooLarge {
        /// Bytes of the commands or of the part.
        bytes: usize,
        /// The largest that there may be.
        max: usize,
    },
    /// Too much waits for the log already. The commands do not count, and may be appended again.
    Full,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { retry_after } => write!(
                f,
                "the cluster's log cannot be reached; nothing was changed; try again in {} s, or \
                 at another node",
                retry_after.as_secs().max(1)
            ),
            Self::Unknown => f.write_str(
                "the cluster's log did not confirm this in time; it may still take effect; send \
                 it again with the same Idempotency-Key",
            ),
            Self::TooLarge { bytes, max } => write!(
                f,
                "this has {bytes} bytes, and an entry of the cluster's log has at most {max}; \
                 send less at once, or raise max_payload of the engine"
            ),
            Self::Full => f.write_str(
                "too much is already waiting for the cluster's log; nothing was changed; send \
                 more slowly",
            ),
        }
    }
}

impl Error for AppendError {}
