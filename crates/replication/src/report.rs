//! What nodes say of themselves beside the log, for those who look at the cluster, and how one is
//! asked to end.
//!
//! Must never decide anything: a report that is lost is missing in a table.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::codec::{Source, bounded};
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::message::kind;

/// First byte of a report: its kind and the version of its format.
const REPORT: u8 = 0x31;

/// First byte of a request to drain.
const DRAIN: u8 = 0x41;

/// First byte of the answer to it.
const DRAINING: u8 = 0x42;

/// Most numbers of a report. A later version may add some; what is not known is passed over.
const NUMBERS_MAX: usize = 64;

/// Whether clients should be sent to a node, as it says itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It has not said so.
    #[default]
    Unknown,
    /// They should.
    Ready,
    /// They should not.
    NotReady,
    /// They should not, and those that it has are sent elsewhere.
    Draining,
}

/// What a node counts. Counters begin with its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Time since its start.
    pub uptime: Duration,
    /// Time by which it is behind the log.
    pub lag: Duration,
    /// Worker threads.
    pub workers: u64,
    /// Time that all its workers were busy.
    pub busy: Duration,
    /// Open connections of clients.
    pub connections: u64,
    /// Sessions.
    pub sessions: u64,
    /// Events that sockets of sessions took.
    pub written: u64,
    /// Bytes that sockets of clients took.
    pub bytes_written: u64,
    /// Bytes that wait because sockets of clients are full.
    pub backlog_bytes: u64,
    /// Bytes that wait for the log.
    pub waiting_bytes: u64,
    /// Connections to the engine that were lost.
    pub disconnects: u64,
}

/// What a node says every second to those who look at the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Whether clients should be sent to it.
    pub state: NodeState,
    /// What it counts.
    pub counters: NodeCounters,
}

/// Request to a node that it send its clients elsewhere, and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// The run of the node that is meant: a later one is not to end.
    pub incarnation: Incarnation,
}

/// Answer of a node to [`Drain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draining {
    /// The run of the node that answers. It drains if it is the one that was meant.
    pub incarnation: Incarnation,
}

/// Called once with the outcome, from any thread. It must not block.
pub type DrainDone = Box<dyn FnOnce(Result<Incarnation, DrainError>) + Send>;

/// Reason why a node is not known to drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainError {
    /// No node has this name.
    Unknown {
        /// The names that there are.
        names: Vec<Box<str>>,
    },
    /// It does not answer.
    Silent {
        /// Time since it was last heard.
        silent: Duration,
    },
    /// It was started anew meanwhile.
    Restarted,
    /// This node cannot reach the others.
    Unreachable,
}

impl NodeCounters {
    /// The numbers of a report, in their order. New ones come last.
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

    /// Takes the numbers that are there. The others are 0.
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
    const fn number(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Ready => 1,
            Self::NotReady => 2,
            Self::Draining => 3,
        }
    }

    /// A number of a later version says nothing to this one.
    const fn of(number: u8) -> Self {
        match number {
            1 => Self::Ready,
            2 => Self::NotReady,
            3 => Self::Draining,
            _ => Self::Unknown,
        }
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ready => "ready",
            Self::NotReady => "not_ready",
            Self::Draining => "draining",
        }
    }
}

impl Report {
    /// Returns the report as bytes.
    pub fn encode(&self) -> Bytes {
        let numbers = self.counters.numbers();
        let mut out = vec![REPORT];
        out.extend_from_slice(&self.incarnation.number().to_le_bytes());
        out.push(self.state.number());
        out.push(numbers.len() as u8);
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.into()
    }

    /// Reads a report, also one of a version that counts more or less.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one report.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut source = Source::new(bytes);
        kind(&mut source, REPORT)?;
        let incarnation = source.incarnation()?;
        let state = NodeState::of(source.u8()?);
        let count = usize::from(source.u8()?);
        bounded("the number of a node's counters", count, NUMBERS_MAX)?;
        let numbers = (0..count).map(|_| source.u64());
        let numbers: Vec<_> = numbers.collect::<Result<_, _>>()?;
        source.end()?;
        Ok(Self {
            incarnation,
            state,
            counters: NodeCounters::of(&numbers),
        })
    }
}

/// Returns a message that has nothing but an incarnation.
fn encode(kind: u8, incarnation: Incarnation) -> Bytes {
    let mut out = vec![kind];
    out.extend_from_slice(&incarnation.number().to_le_bytes());
    out.into()
}

fn decode(bytes: &Bytes, expected: u8) -> Result<Incarnation, DecodeError> {
    let mut source = Source::new(bytes);
    kind(&mut source, expected)?;
    let incarnation = source.incarnation()?;
    source.end()?;
    Ok(incarnation)
}

impl Drain {
    /// Returns the request as bytes.
    pub fn encode(self) -> Bytes {
        encode(DRAIN, self.incarnation)
    }

    /// Reads a request.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one request.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        decode(bytes, DRAIN).map(|incarnation| Self { incarnation })
    }
}

impl Draining {
    /// Returns the answer as bytes.
    pub fn encode(self) -> Bytes {
        encode(DRAINING, self.incarnation)
    }

    /// Reads an answer.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one answer.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        decode(bytes, DRAINING).map(|incarnation| Self { incarnation })
    }
}

impl fmt::Display for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { names } if names.is_empty() => f.write_str(
                "this cluster has no node of this name, and none at all as far as is known",
            ),
            Self::Unknown { names } => write!(
                f,
                "this cluster has no node of this name; it has {}",
                names.join(", ")
            ),
            Self::Silent { silent } => write!(
                f,
                "the node does not answer, and was last heard {} s ago; nothing was changed; if \
                 it is dead, its clients have gone to other nodes already, and it leaves the \
                 cluster after 5 s of silence; if it is cut off from the engine, end it where it \
                 runs",
                silent.as_secs()
            ),
            Self::Restarted => f.write_str(
                "the node has taken another place in the cluster meanwhile; nothing was changed; \
                 try again",
            ),
            Self::Unreachable => f.write_str(
                "the node that was asked cannot reach the others; nothing was changed; ask \
                 another node, or end the node where it runs",
            ),
        }
    }
}

impl Error for DrainError {}
