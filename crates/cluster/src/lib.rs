//! The cluster's driver over NATS JetStream.
//!
//! Owns the connection to the engine, the stream that is the cluster's log, and the threads that
//! write and read it. `replication` decides which entries count, and [`apply`] makes their changes
//! on this node. Must never touch a connection of a client.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Options: servers, names, credentials, limits of the log.
mod options;
/// Connection to the engine.
mod connection;
/// Settings of the stream: those to create it with, and those it must have.
mod settings;
/// The stream that is the cluster's log.
mod stream;
/// The engine: the connection and the log, before the node runs.
mod engine;
/// The consumer, which delivers the messages of the log in order.
mod consumer;
/// Contact to the engine, and how far this node is behind the log.
mod contact;
/// Doubt whether the log is still the one that this node applies.
mod doubt;
/// Appends that wait for their results.
mod waiting;
/// Random numbers of incarnations.
mod incarnations;
/// The outbox: the writer of a node.
mod outbox;
/// State shared by the tasks and threads of a node, and its interface to its server.
mod shared;
/// Regular requests for the state of the log.
mod inquiry;
/// Sending of entries to the log.
mod sending;
/// The thread that applies the log.
mod reading;
/// Application of entries, in the order of the log.
pub mod apply;
/// Messages to the other nodes, and from them.
mod links;
/// Results of commands whose events are still being delivered.
mod pending;
/// Requests to drain a node, which also show whether a name is taken.
mod drain;
/// Copies of the graph in the engine's object store.
mod snapshot;
/// Readiness: whether clients should be sent to this node.
mod readiness;
/// The node: the tasks and threads of a server in a cluster.
mod node;
/// Errors of joining a cluster, and reasons to stop applying its log.
mod error;

pub use engine::Engine;
pub use error::{JoinError, Stop, StopKind};
pub use node::Cluster;
pub use options::{
    Credentials, LogOptions, Name, Options, SecretText, ServerAddress, Storage, TlsFiles,
};
pub use pending::Pending;
pub use reading::{Apply, EntryRead};
pub use shared::Host;
pub use snapshot::{Found, ImportError, Imported, Importer, Progress, SnapshotError};
pub use stream::LogState;
