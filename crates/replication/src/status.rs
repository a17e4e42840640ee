//! Status of a node in its cluster.

use std::time::Duration;

use serde::Serialize;

use crate::incarnation::Incarnation;
use crate::position::StreamSequence;
use crate::report::{NodeCounters, NodeState, seconds};

/// Status of this node in its cluster, for readiness, metrics and `/v1/cluster`, which shows it
/// with these names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Name of this node.
    pub node: Box<str>,
    /// Incarnation of this node; `None` before the first and after a `NodeGone`.
    pub incarnation: Option<Incarnation>,
    /// Epoch of event ids, which identifies the content of the stream.
    pub epoch: Box<str>,
    /// Reason why this node is not ready, as a sentence; `None` if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<Box<str>>,
    /// Whether the engine can be reached.
    #[serde(rename = "connected")]
    pub is_connected: bool,
    /// Last entry that this node has applied.
    pub applied: StreamSequence,
    /// Last entry that is known to be in the log.
    pub last: StreamSequence,
    /// Time by which this node is behind the log.
    #[serde(rename = "lag_seconds", serialize_with = "seconds")]
    pub lag: Duration,
    /// Number of entries that this node has sent but not read back.
    pub in_flight: usize,
    /// Size of the commands that wait in this node or are in flight, in bytes.
    pub waiting_bytes: usize,
    /// Number of entries that this node has applied since it started.
    pub entries: u64,
    /// Number of entries that it has skipped: repeats, and entries out of order.
    pub skipped: u64,
    /// Number of entries that it has resent.
    pub resent: u64,
    /// Status of the engine, which stores the log.
    pub engine: EngineStatus,
    /// All nodes of the cluster, including this one, sorted by name.
    #[serde(skip)]
    pub nodes: Vec<NodeStatus>,
}

/// Latest status of the log in the engine, and counters of this node's connection to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EngineStatus {
    /// Server that this node is connected to.
    pub server: Option<Box<str>>,
    /// Server that leads the log; `None` while one is elected.
    pub leader: Option<Box<str>>,
    /// Time since the leader last answered.
    #[serde(rename = "leader_silent_seconds", serialize_with = "seconds")]
    pub leaderless: Duration,
    /// Servers that follow the leader.
    pub followers: Vec<FollowerStatus>,
    /// Sequence of the oldest entry of the log.
    pub first: u64,
    /// Size of the log, in bytes.
    pub bytes: u64,
    /// Maximum size of the log, in bytes; 0 without a limit.
    pub bytes_max: u64,
    /// Number of connections that this node has made, including the first one.
    pub connects: u64,
    /// Number of connections that it has lost.
    pub disconnects: u64,
    /// Number of messages that were dropped because they were not read in time.
    pub dropped: u64,
    /// Number of consumers that this node has created to read the log, including the first one.
    pub consumers: u64,
    /// Number of consumers that were replaced because they were silent.
    pub consumers_silent: u64,
    /// Number of consumers that were replaced because a message was missing.
    pub consumers_skipped: u64,
}

/// A server that follows the leader of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FollowerStatus {
    /// Name of the server.
    pub name: Box<str>,
    /// Whether it is up to date.
    #[serde(rename = "current")]
    pub is_current: bool,
    /// Number of operations by which it is behind.
    pub lag: u64,
    /// Time since the leader last heard from it.
    #[serde(rename = "silent_seconds", serialize_with = "seconds")]
    pub silent: Duration,
}

/// Status of a node as known to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// Name of the node.
    pub name: Box<str>,
    /// Version of its program.
    pub version: Box<str>,
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// Last entry that it has applied, according to its last heartbeat.
    pub applied: StreamSequence,
    /// Number of its sessions, according to its last heartbeat.
    pub sessions: u64,
    /// Time since its last heartbeat.
    #[serde(rename = "silent_seconds", serialize_with = "seconds")]
    pub silent: Duration,
    /// State according to its last report.
    pub state: NodeState,
    /// Counters according to its last report.
    #[serde(flatten)]
    pub counters: NodeCounters,
}
