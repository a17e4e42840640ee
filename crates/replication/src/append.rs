//! Interface for appending to the log.

use std::fmt::Debug;
use std::time::Duration;

use graph::{Effect, GraphError};

use crate::command::Command;
use crate::position::Position;
use crate::report::{DrainDone, DrainError};
use crate::status::Status;

/// Callback of an append. Called once with the result, on any thread; must not block.
pub type Done = Box<dyn FnOnce(Result<Applied, AppendError>) + Send>;

/// The log, as seen by publishers and by callers that change the graph or shared state.
pub trait Append: Debug + Send + Sync {
    /// Appends commands, which count together or not at all and have consecutive positions. Calls
    /// `done` once: when this node has applied their entry and `wait` is over, or with the error.
    /// Commands appended by one thread keep their order.
    fn append(&self, commands: Vec<Command>, wait: Wait, done: Done);

    /// Returns the status of this node in its cluster.
    fn status(&self) -> Status;

    /// Asks the node of this name to send its clients to other nodes and to end. Calls `done` once:
    /// when the node has confirmed it, or with the error. The default implementation, for a log
    /// without nodes, returns [`DrainError::Unreachable`].
    fn drain(&self, node: &str, done: DrainDone) {
        let _ = node;
        done(Err(DrainError::Unreachable));
    }
}

/// What an append waits for, after its entry was applied by this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing else.
    Logged,
    /// The results of the events at every node, for a second at most.
    Delivered,
}

/// Commands that count and were applied by this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Position of the first command. The command at index `i` has this position plus `i`.
    pub first: Position,
    /// Result of each command, in order.
    pub results: Vec<CommandResult>,
    /// Number of nodes whose answers are part of the results, including this one.
    pub nodes: u32,
    /// Names of the nodes that did not answer in time. Empty with [`Wait::Logged`], as no node is
    /// asked.
    pub missing: Vec<Box<str>>,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandResult {
    /// Result of an event: sums over all nodes that answered.
    Event {
        /// Position of the event.
        position: Position,
        /// Number of subscribers at that position, including the subject itself.
        subscribers: u64,
        /// Number of sessions that were to receive it.
        online: u64,
        /// Number of sessions to whose sockets it was written.
        written: u64,
        /// Number of sessions for which it is queued.
        queued: u64,
        /// Number of sessions for which it was dropped.
        shed: u64,
    },
    /// Result of a change.
    Change(Result<Effect, GraphError>),
    /// A command that has no result.
    None,
}

/// Error of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The log cannot be reached. The commands do not count, and may be appended again.
    #[error(
        "the cluster's log cannot be reached; nothing was changed; try again in {} s, or at \
         another node",
        .retry_after.as_secs().max(1)
    )]
    Unavailable {
        /// Time after which to try again.
        retry_after: Duration,
    },
    /// It is not known whether the commands count: they may be applied later or never.
    #[error(
        "the cluster's log did not confirm this in time; it may still take effect; send it again \
         with the same Idempotency-Key"
    )]
    Unknown,
    /// The commands, or a part of one, are too large for an entry. They do not count.
    #[error(
        "this has {bytes} bytes, and an entry of the cluster's log has at most {max}; send less \
         at once, or raise max_payload of the engine"
    )]
    TooLarge {
        /// Size of the commands or of the part, in bytes.
        bytes: usize,
        /// Maximum size, in bytes.
        max: usize,
    },
    /// Too many appends are waiting for the log. The commands do not count, and may be appended
    /// again.
    #[error(
        "too much is already waiting for the cluster's log; nothing was changed; send more slowly"
    )]
    Full,
}
