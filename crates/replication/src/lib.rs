//! Replication: the core of a cluster of nodes that share one replicated log.
//!
//! Every change that subscribers can see is a command in an entry of the log, and all nodes read
//! the same entries in the same order. This crate owns the format of entries, the rule that decides
//! which of them count, the writer that appends and resends them, and the messages between nodes.
//! Must never know a session or a router, or touch a socket, a file, a thread or a clock: bytes and
//! the time are arguments.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Stream sequences, and positions of commands.
mod position;
/// Incarnations: runs of nodes.
mod incarnation;
/// Commands: the contents of an entry.
mod command;
/// Shared state: its kinds, and the interface to its keeper.
pub mod shared;
/// Encoding and decoding of integers, ids and text.
mod codec;
/// Errors of decoding.
mod error;
/// Entries of the log.
mod entry;
/// The incarnation table: which entries count.
mod table;
/// Checkpoints: the state of a reader between two entries.
mod checkpoint;
/// Manifests: descriptions of snapshots.
mod manifest;
/// The reader, which decides which entries of the log count.
mod reader;
/// The writer, which groups, sends and resends the entries of one node.
mod writer;
/// Interface for appending to the log.
mod append;
/// Messages between nodes outside the log: heartbeats and answers.
mod message;
/// Reports of nodes, and requests to drain a node.
mod report;
/// Receipts: sums of the answers of nodes.
mod receipts;
/// Status of a node in its cluster.
mod status;
/// Membership: heartbeats, and detection of silent nodes.
mod membership;

pub use append::{Append, AppendError, Applied, CommandResult, Done, Wait};
pub use checkpoint::Checkpoint;
pub use command::{
    Command, EVENT_TYPE_BYTES_MAX, EventRecord, NAME_BYTES_MAX, SHARED_BYTES_MAX, VERSION_BYTES_MAX,
};
pub use entry::{ENTRY_BYTES_MAX, ENTRY_COMMANDS_MAX, Entry, EntryHead};
pub use error::DecodeError;
pub use incarnation::Incarnation;
pub use manifest::{EARLIER_MAX, EPOCH_BYTES_MAX, SnapshotManifest};
pub use membership::{HEARTBEAT_EVERY, Membership, SILENT_AFTER, STOOD_STILL_AFTER};
pub use message::{ANSWERS_MAX, Answer, Answers, EventCounts, Heartbeat, MESSAGE_BYTES_MAX};
pub use position::{Position, StreamSequence};
pub use reader::{Outcome, Read, ReadError, Reader};
pub use receipts::{ANSWER_TIME, AWAITED_MAX, EARLY_EVENTS_MAX, Receipt, Receipts};
pub use report::{DrainDone, DrainError, DrainMessage, NodeCounters, NodeState, Report};
pub use status::{EngineStatus, FollowerStatus, NodeStatus, Status};
pub use table::{INCARNATIONS_MAX, Member, Skip, Table};
pub use writer::{
    ANSWER_WITHIN, Finished, GROUP_BYTES_MAX, GROUP_TIME, IN_FLIGHT_MAX, NotOurs, Outgoing,
    RESEND_AFTER, RESEND_STORED_AFTER, Refused, UNAVAILABLE_AFTER, Writer, WriterOptions,
};
