//! The cluster's driver over NATS JetStream.
//!
//! Owns the connection to the engine, the stream that is the cluster's log, and the threads that
//! write and read it. What an entry means is decided in `replication`; what it does here, in
//! [`apply`]. Must never touch a connection of a client.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Options: servers, names, credentials, limits of the log.
mod options;
/// Connection to the engine.
mod connection;
/// Settings of the stream: those to create it with, and those it must have.
mod settings;
/// The stream that is the cluster's log: made, found and checked.
mod stream;
/// The engine: the connection and the log, before the node runs.
mod engine;
/// The consumer: messages of the log in order, whatever the engine's servers do.
mod consumer;
/// When the engine was last heard, and how far this node is behind the log.
mod contact;
/// A sign that the log is not the one that this node applies.
mod doubt;
/// What the leader of the log is asked each second.
mod inquiry;
/// Appends that wait for their outcome.
mod waiting;
/// Random numbers of incarnations.
mod incarnations;
/// Entries of this node on their way into the log.
mod sending;
/// The thread that applies the log.
mod reading;
/// Entries, applied in the order of the log.
pub mod apply;
/// What a node tells others of the engine.
mod engine_view;
/// The server that a node is.
mod host;
/// The other nodes: receipts and membership.
mod peers;
/// What nodes say of themselves, and how one is asked to end.
mod reports;
/// Results of commands while sessions still get their events.
mod pending;
/// Names of nodes, of which each belongs to one.
mod names;
/// Copies of the graph in the engine's object store.
mod snapshot;
/// Whether clients should be sent to this node.
mod readiness;
/// Reasons why a node applies nothing any more, and what is left to it.
mod stop;
/// The node: what runs while a server is part of a cluster.
mod node;
/// Reasons why a node cannot join its cluster.
mod error;

pub use engine::Engine;
pub use error::JoinError;
pub use host::Host;
pub use node::Cluster;
pub use options::{
    Credentials, LogOptions, Name, NameError, Options, SecretText, ServerAddress, Storage, TlsFiles,
};
pub use pending::Pending;
pub use reading::{Apply, EntryRead};
pub use snapshot::{Found, ImportError, Imported, Importer, Progress, SnapshotError};
pub use stop::{Stop, StopKind};
pub use stream::{Follower, LogState};
