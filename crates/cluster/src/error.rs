//! Errors of joining a cluster, and reasons to stop applying its log.

use replication::Incarnation;

/// Reason why a node cannot join its cluster. Each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The engine does not answer.
    #[error(
        "no server of the cluster's engine can be reached at {servers}: {reason}; start \
         nats-server with JetStream there, or correct --cluster"
    )]
    Unreachable {
        /// Servers that were tried.
        servers: String,
        /// Error of the last one.
        reason: String,
    },
    /// The engine refuses the credentials, with this answer.
    #[error(
        "the cluster's engine refuses the credentials ({0}); see --cluster-user, \
         --cluster-token-file, --cluster-nkey-file and --cluster-credentials"
    )]
    Unauthorized(String),
    /// A file with certificates or credentials cannot be used, for this reason.
    #[error("{0}")]
    File(String),
    /// The engine has no JetStream, or it is disabled for this account, as this answer says.
    #[error(
        "the cluster's engine has no JetStream for this account ({0}); start nats-server with \
         --jetstream, or enable it for the account"
    )]
    NoJetStream(String),
    /// The server's version is too old.
    #[error("the cluster's engine is nats-server {version}; Encke needs 2.10.23 or newer")]
    TooOld {
        /// Version of the server.
        version: String,
    },
    /// The engine's limit for messages is too small for the largest event.
    #[error(
        "--event-bytes is {event_bytes} bytes, but the cluster's engine accepts messages of at \
         most {message_bytes} bytes; lower --event-bytes or raise max_payload in the configuration \
         of nats-server"
    )]
    EventTooLarge {
        /// Largest event, in bytes.
        event_bytes: usize,
        /// Largest message that the engine accepts, in bytes.
        message_bytes: usize,
    },
    /// The stream cannot be created.
    #[error("the stream {stream} cannot be created: {reason}")]
    Create {
        /// Name of the stream.
        stream: String,
        /// Answer of the server.
        reason: String,
    },
    /// The stream exists but cannot be used.
    #[error(
        "the stream {stream} cannot be the log of this cluster: {}; choose another --cluster-name, \
         or correct the stream with `nats stream edit`",
        .problems.join("; ")
    )]
    Unusable {
        /// Name of the stream.
        stream: String,
        /// Wrong settings, each with the value found and the value needed.
        problems: Vec<String>,
    },
    /// The log no longer has the entry that the node must read next.
    #[error(
        "this node must continue with entry {next} of the cluster's log, but the log begins at \
         {first}: the node was too far behind; start it again, and it continues from a snapshot; \
         raise --log-bytes if this happens again"
    )]
    Trimmed {
        /// Next entry to read.
        next: u64,
        /// Oldest entry of the log.
        first: u64,
    },
    /// The node has read later entries than the log has.
    #[error(
        "this node has applied entry {read} of the cluster's log, but the log ends at {last}: the \
         engine has lost entries, or the data directory belongs to another log; start the node \
         with an empty data directory"
    )]
    Ahead {
        /// Last entry that the node has read.
        read: u64,
        /// Last entry of the log.
        last: u64,
    },
    /// The stream was deleted and created again since the node joined.
    #[error(
        "the log of the cluster was made anew: its epoch is {found:?}, and this node has applied \
         the log with the epoch {expected:?}; start the node with an empty data directory"
    )]
    OtherLog {
        /// Epoch of the log that the node applies.
        expected: String,
        /// Epoch of the current stream; empty if another program created it.
        found: String,
    },
    /// An entry differs from the one that the node has applied.
    #[error(
        "entry {sequence} of the cluster's log differs from the one that this node has applied: \
         the engine has lost entries and stored others in their place; start the node with an \
         empty data directory"
    )]
    Rewritten {
        /// Sequence of the entry.
        sequence: u64,
    },
    /// Another node of the cluster has the same name.
    #[error(
        "another node of this cluster has the name {node} and is running (incarnation \
         {incarnation}); give each node its own --node, or stop the other node first"
    )]
    NameTaken {
        /// The name.
        node: String,
        /// Incarnation of the other node.
        incarnation: Incarnation,
    },
    /// A request to the engine failed: this one, with this answer.
    #[error("{0}")]
    Request(String),
}

/// Reason why a node has stopped applying entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// A sentence that says what to do.
    pub reason: String,
    /// Kind of the reason, which decides what the node can do.
    pub kind: StopKind,
}

/// Kind of a reason why a node has stopped applying entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// The node cannot apply an entry, but another version may: it waits for an update.
    Entry,
    /// The log no longer has entries that the node must apply. After a restart it continues from a
    /// snapshot.
    Trimmed,
    /// The log differs from the one that the node has applied. Its graph is of no use to this
    /// cluster.
    OtherLog,
}
