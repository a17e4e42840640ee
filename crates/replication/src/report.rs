//! Reports of nodes, for the overview of the cluster, and requests to drain a node. Both are sent
//! outside the log.
//!
//! Must never decide anything: a lost report is only missing in an overview.

use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::codec::{Source, bounded};
use crate::error::DecodeError;
use crate::incarnation::Incarnation;

/// First byte of a report: its kind and the version of its format.
const REPORT: u8 = 0x31;

/// Maximum number of counters in a report. A later version may add some; unknown ones are ignored.
const NUMBERS_MAX: usize = 64;

/// State of a node as it reports it: whether clients should be sent to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node has not reported its state.
    #[default]
    Unknown = 0,
    /// Clients should be sent to it.
    Ready = 1,
    /// Clients should not be sent to it.
    NotReady = 2,
    /// Clients should not be sent to it, and its own are sent to other nodes.
    Draining = 3,
}

/// Counters and gauges of a node. Counters begin at its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NodeCounters {
    /// Time since its start.
    #[serde(rename = "uptime_seconds", serialize_with = "seconds")]
    pub uptime: Duration,
    /// Time by which it is behind the log.
    #[serde(rename = "lag_seconds", serialize_with = "seconds")]
    pub lag: Duration,
    /// Number of worker threads.
    pub workers: u64,
    /// Total busy time of all its workers.
    #[serde(rename = "busy_seconds", serialize_with = "seconds")]
    pub busy: Duration,
    /// Number of open connections of clients.
    pub connections: u64,
    /// Number of sessions.
    #[serde(skip)]
    pub sessions: u64,
    /// Number of events written to sockets of sessions.
    pub written: u64,
    /// Number of bytes written to sockets of clients.
    pub bytes_written: u64,
    /// Number of bytes that wait because sockets of clients are full.
    pub backlog_bytes: u64,
    /// Number of bytes that wait for the log.
    pub waiting_bytes: u64,
    /// Number of lost connections to the engine.
    pub disconnects: u64,
}

/// Report of a node, sent once a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// State of the node.
    pub state: NodeState,
    /// Counters of the node.
    pub counters: NodeCounters,
}

/// Kind of a message about the draining of a node. Each consists of an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DrainMessage {
    /// Request to a node to send its clients to other nodes and to end, with the incarnation that
    /// is to end; a later one of the same node is not.
    Request = 0x41,
    /// Answer, with the incarnation that answers. It drains if it is the requested one.
    Answer = 0x42,
}

/// Callback of a request to drain. Called once with the result, on any thread; must not block.
pub type DrainDone = Box<dyn FnOnce(Result<Incarnation, DrainError>) + Send>;

/// Error of a request to drain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DrainError {
    /// No node has this name.
    #[error("this cluster has no node of this name{}", others(names))]
    Unknown {
        /// Names of the nodes of the cluster.
        names: Vec<Box<str>>,
    },
    /// The node does not answer.
    #[error(
        "the node does not answer, and was last heard {} s ago; nothing was changed; if it is \
         dead, its clients have gone to other nodes already, and it leaves the cluster after 5 s \
         of silence; if it is cut off from the engine, end it where it runs",
        .silent.as_secs()
    )]
    Silent {
        /// Time since its last heartbeat.
        silent: Duration,
    },
    /// The node has restarted meanwhile.
    #[error(
        "the node has taken another place in the cluster meanwhile; nothing was changed; try again"
    )]
    Restarted,
    /// This node cannot reach the other nodes.
    #[error(
        "the node that was asked cannot reach the others; nothing was changed; ask another node, \
         or end the node where it runs"
    )]
    Unreachable,
}

fn others(names: &[Box<str>]) -> String {
    match names.is_empty() {
        true => ", and none at all as far as is known".to_owned(),
        false => format!("; it has {}", names.join(", ")),
    }
}

/// Writes a time in seconds, rounded to milliseconds.
pub(crate) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_millis() as f64 / 1e3)
}

impl NodeCounters {
    /// Returns the counters in the order of a report. New ones are added at the end.
    fn numbers(&self) -> [u64; 11] {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        [
            micros(self.uptime),
            micros(self.lag),
            self.workers,
            micros(self.busy),
            self.connections,
            self.sessions,
            self.written,
            self.bytes_written,
            self.backlog_bytes,
            self.waiting_bytes,
            self.disconnects,
        ]
    }

    /// Creates counters from the numbers of a report; missing ones are 0.
    fn of(numbers: &[u64]) -> Self {
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        Self {
            uptime: Duration::from_micros(at(0)),
            lag: Duration::from_micros(at(1)),
            workers: at(2),
            busy: Duration::from_micros(at(3)),
            connections: at(4),
            sessions: at(5),
            written: at(6),
            bytes_written: at(7),
            backlog_bytes: at(8),
            waiting_bytes: at(9),
            disconnects: at(10),
        }
    }
}

impl NodeState {
    /// Returns the state with this number; `Unknown` for a number of a later version.
    const fn of(number: u8) -> Self {
        match number {
            1 => Self::Ready,
            2 => Self::NotReady,
            3 => Self::Draining,
            _ => Self::Unknown,
        }
    }
}

impl Report {
    /// Encodes the report.
    pub fn encode(&self) -> Bytes {
        let numbers = self.counters.numbers();
        let mut out = vec![REPORT];
        out.extend_from_slice(&self.incarnation.number().to_le_bytes());
        out.push(self.state as u8);
        out.push(u8::try_from(numbers.len()).expect("there are few counters"));
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.into()
    }

    /// Decodes a report, also one of a version with more or fewer counters.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one report.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        Source::decode(bytes, REPORT, |source| {
            let incarnation = source.incarnation()?;
            let state = NodeState::of(source.u8()?);
            let count = usize::from(source.u8()?);
            bounded("the number of a node's counters", count, NUMBERS_MAX)?;
            let numbers = (0..count).map(|_| source.u64());
            Ok(Self {
                incarnation,
                state,
                counters: NodeCounters::of(&numbers.collect::<Result<Vec<_>, _>>()?),
            })
        })
    }
}

impl DrainMessage {
    /// Encodes a message of this kind.
    pub fn encode(self, incarnation: Incarnation) -> Bytes {
        let mut out = vec![self as u8];
        out.extend_from_slice(&incarnation.number().to_le_bytes());
        out.into()
    }

    /// Decodes the incarnation of a message.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one message of this kind.
    pub fn decode(self, bytes: &Bytes) -> Result<Incarnation, DecodeError> {
        Source::decode(bytes, self as u8, Source::incarnation)
    }
}
