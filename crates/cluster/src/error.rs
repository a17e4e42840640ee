//! Reasons why a node cannot join its cluster.

use std::fmt;

use replication::Incarnation;

/// Reason why a node cannot join its cluster. Each says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinError {
    /// The engine does not answer.
    Unreachable {
        /// Servers that were tried.
        servers: String,
        /// Why the last one failed.
        reason: String,
    },
    /// The engine refuses the credentials.
    Unauthorized {
        /// What the server said.
        reason: String,
    },
    /// A file for TLS or credentials cannot be used.
    File {
        /// What is wrong with it.
        reason: String,
    },
    /// The engine has no JetStream, or not for this account.
    NoJetStream {
        /// What the server said.
        reason: String,
    },
    /// The server's version is too old.
    TooOld {
        /// Version that was found.
        version: String,
    },
    /// The engine's messages are too small for the largest event.
    EventTooLarge {
        /// Largest event, in bytes.
        event_bytes: usize,
        /// Largest message that the engine takes, in bytes.
        message_bytes: usize,
    },
    /// The stream cannot be made.
    Create {
        /// Name of the stream.
        stream: String,
        /// What the server said.
        reason: String,
    },
    /// The stream exists and cannot be used.
    Unusable {
        /// Name of the stream.
        stream: String,
        /// Each setting that is wrong, with what was found and what is needed.
        problems: Vec<String>,
    },
    /// The log does not have what the node must read next.
    Trimmed {
        /// Next entry to read.
        next: u64,
        /// Oldest entry there is.
        first: u64,
    },
    /// The node has read more than the log has.
    Ahead {
        /// Last entry that the node has read.
        read: u64,
        /// Last entry of the log.
        last: u64,
    },
    /// The stream was made anew since the node found it.
    OtherLog {
        /// Epoch of the log that the node applies.
        expected: String,
        /// Epoch of the stream that there is; empty if another program made it.
        found: String,
    },
    /// An entry is another one than the node has applied.
    Rewritten {
        /// Its sequence.
        sequence: u64,
    },
    /// Another node of the cluster has the name.
    NameTaken {
        /// The name.
        node: String,
        /// The run of the other node.
        incarnation: Incarnation,
    },
    /// A request to the engine failed.
    Request {
        /// What was asked for, and what the server said.
        reason: String,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { servers, reason } => write!(
                f,
                "no server of the cluster's engine can be reached at {servers}: {reason}; start \
                 nats-server with JetStream there, or correct --cluster"
            ),
            Self::Unauthorized { reason } => write!(
                f,
                "the cluster's engine refuses the credentials ({reason}); see --cluster-user, \
                 --cluster-token-file, --cluster-nkey-file and --cluster-credentials"
            ),
            Self::File { reason } => f.write_str(reason),
            Self::NoJetStream { reason } => write!(
                f,
                "the cluster's engine has no JetStream for this account ({reason}); start \
                 nats-server with --jetstream, or enable it for the account"
            ),
            Self::TooOld { version } => write!(
                f,
                "the cluster's engine is nats-server {version}; Encke needs 2.10.23 or newer"
            ),
            Self::EventTooLarge {
                event_bytes,
                message_bytes,
            } => write!(
                f,
                "--event-bytes is {event_bytes} bytes, and the cluster's engine takes messages of \
                 {message_bytes} bytes only; lower --event-bytes or raise max_payload in the \
                 configuration of nats-server"
            ),
            Self::Create { stream, reason } => {
                write!(f, "the stream {stream} cannot be made: {reason}")
            }
            Self::Unusable { stream, problems } => write!(
                f,
                "the stream {stream} cannot be the log of this cluster: {}; choose another \
                 --cluster-name, or correct the stream with `nats stream edit`",
                problems.join("; ")
            ),
            Self::Trimmed { next, first } => write!(
                f,
                "this node must go on with entry {next} of the cluster's log, and the log begins \
                 at {first}: it was too far behind; started again, it goes on from a snapshot; \
                 raise --log-bytes if this comes again"
            ),
            Self::Ahead { read, last } => write!(
                f,
                "this node has applied entry {read} of the cluster's log, and the log ends at \
                 {last}: the engine has lost entries, or the data directory belongs to another \
                 log; start the node with an empty data directory"
            ),
            Self::OtherLog { expected, found } => write!(
                f,
                "the log of the cluster was made anew: its epoch is {found:?}, and this node has \
                 applied the log with the epoch {expected:?}; start the node with an empty data \
                 directory"
            ),
            Self::Rewritten { sequence } => write!(
                f,
                "entry {sequence} of the cluster's log is another one than this node has applied: \
                 the engine has lost entries and has stored others in their place; start the node \
                 with an empty data directory"
            ),
            Self::NameTaken { node, incarnation } => write!(
                f,
                "another node of this cluster has the name {node} and runs (incarnation \
                 {incarnation}); give each node a --node of its own, or end the other one first"
            ),
            Self::Request { reason } => f.write_str(reason),
        }
    }
}

impl std::error::Error for JoinError {}
