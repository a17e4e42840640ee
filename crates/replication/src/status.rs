//! Status of a node in its cluster.

use std::time::Duration;

use crate::incarnation::Incarnation;
use crate::place::StreamSequence;
use crate::report::{NodeCounters, NodeState};

/// Status of this node in its cluster, for readiness, metrics and `/v1/cluster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Name of this node.
    pub node: Box<str>,
    /// Its incarnation; `None` before the first and after a `NodeGone`.
    pub incarnation: Option<Incarnation>,
    /// The epoch of event ids: the name of the stream's content.
    pub epoch: Box<str>,
    /// Why this node is not ready, as a sentence; `None` if it is.
    pub not_ready: Option<Box<str>>,
    /// Whether the engine can be reached.
    pub is_connected: bool,
    /// Last entry that this node has applied.
    pub applied: StreamSequence,
    /// Last entry that is known to be in the log.
    pub last: StreamSequence,
    /// Time by which this node is behind the log.
    pub lag: Duration,
    /// Entries that this node has sent and not yet read back.
    pub in_flight: usize,
    /// Bytes of commands that wait in this node or are in flight.
    pub waiting_bytes: usize,
    /// Entries that this node has applied since it started.
    pub entries: u64,
    /// Entries that it has skipped: repeats, and entries out of turn.
    pub skipped: u64,
    /// Entries that it has sent again.
    pub resent: u64,
    /// The engine: what keeps the log.
    pub engine: EngineStatus,
    /// All nodes of the cluster, this one included, by name.
    pub nodes: Vec<NodeStatus>,
}

/// What the engine last said of the log, and what happened between it and this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// Server that this node is connected to.
    pub server: Option<Box<str>>,
    /// Server that leads the log; `None` while one is elected.
    pub leader: Option<Box<str>>,
    /// Time since the leader last answered.
    pub leaderless: Duration,
    /// Servers that follow it.
    pub followers: Vec<FollowerStatus>,
    /// Sequence of the oldest entry of the log.
    pub first: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// Most bytes that it may have; 0 without a limit.
    pub bytes_max: u64,
    /// Connections that this node has made, the first one included.
    pub connects: u64,
    /// Connections that it has lost.
    pub disconnects: u64,
    /// Messages that were dropped because they were not read in time.
    pub dropped: u64,
    /// Consumers that this node has made to read the log, the first one included.
    pub consumers: u64,
    /// Consumers that it replaced because they were silent.
    pub consumers_silent: u64,
    /// Consumers that it replaced because a message was missing.
    pub consumers_skipped: u64,
}

/// A server that follows the leader of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowerStatus {
    /// Its name.
    pub name: Box<str>,
    /// Whether it keeps up.
    pub is_current: bool,
    /// Operations that it lacks.
    pub lag: u64,
    /// Time since the leader last heard of it.
    pub silent: Duration,
}

/// Status of a node as another one knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its name.
    pub name: Box<str>,
    /// Its version.
    pub version: Box<str>,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Last entry that it said it had applied.
    pub applied: StreamSequence,
    /// Sessions that it said it had.
    pub sessions: u64,
    /// Time since its last heartbeat.
    pub silent: Duration,
    /// Whether clients should be sent to it, as it says.
    pub state: NodeState,
    /// What it counts, as it says.
    pub counters: NodeCounters,
}
