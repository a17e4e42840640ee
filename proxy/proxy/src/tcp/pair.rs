//! Record of a client's connection and its backend connection. Lives in the pair table from accept
//! to close.
//!
//! An idle pair owns no buffer and no pipe: a direction holds bytes only while its sink is full,
//! and a pipe only during bulk transfer.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use reactor::{Pipe, Slot, Tenths, Tick};

use crate::tcp::backend::Backend;
use crate::tcp::balance::TriedBackends;
use crate::tcp::frontend::Frontend;
use crate::tcp::limits::PAUSE_MIN;
use crate::tcp::settings::Balance;

/// One of a pair's two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Backend,
}

/// State of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The client's PROXY header is not complete.
    AwaitingHeader,
    /// The connection to a backend is not established.
    Connecting,
    /// Bytes are relayed both ways.
    Open,
    /// Removed when the turn ends.
    Closed,
}

/// Direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the backend.
    Up,
    /// From the backend to the client.
    Down,
}

impl Direction {
    /// Returns the direction whose source is `side`.
    pub(crate) const fn from_side(side: Side) -> Self {
        match side {
            Side::Client => Self::Up,
            Side::Backend => Self::Down,
        }
    }

    /// Returns the direction whose sink is `side`.
    pub(crate) const fn to_side(side: Side) -> Self {
        Self::from_side(side).opposite()
    }

    /// Returns the side that bytes come from.
    pub(crate) const fn source(self) -> Side {
        match self {
            Self::Up => Side::Client,
            Self::Down => Side::Backend,
        }
    }

    /// Returns the other direction.
    pub(crate) const fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// State of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowState {
    /// The source may send more.
    Open,
    /// The source has ended its side; not all of its bytes are sent to the sink yet.
    SourceEnded,
    /// The source was reset; not all of its bytes are sent to the sink yet.
    SourceReset,
    /// Everything was sent to the sink, followed by the end or, soon, a reset.
    Done,
    /// One side is gone. Nothing more is received from the source.
    Broken,
}

/// Bytes that wait for a sink, or a pipe that holds them.
#[derive(Debug)]
pub(crate) enum Pending<P> {
    /// Bytes, and how many of them were sent.
    Bytes(Vec<u8>, usize),
    /// A pipe, and how many bytes it holds.
    Pipe(P, usize),
}

/// One direction of a pair.
#[derive(Debug)]
pub(crate) struct Flow<P> {
    pub(crate) pending: Option<Box<Pending<P>>>,
    pub(crate) state: FlowState,
    /// Full blocks in a row. Enough of them are bulk.
    pub(crate) full_blocks: u8,
    /// The source has bytes to receive, and no signal will announce them again.
    pub(crate) unread: bool,
    /// The sink is full: a signal will announce room.
    pub(crate) sink_full: bool,
    /// The source's input is not reported.
    pub(crate) input_paused: bool,
    /// The source's end was announced, so that even a short read leaves something to receive.
    pub(crate) end_announced: bool,
}

impl<P> Default for Flow<P> {
    fn default() -> Self {
        Self {
            pending: None,
            state: FlowState::Open,
            full_blocks: 0,
            unread: false,
            sink_full: false,
            input_paused: false,
            end_announced: false,
        }
    }
}

/// Client's address and what depends on it. Kept only if a setting needs it.
#[derive(Debug)]
pub(crate) struct ClientInfo {
    /// Client's address: from a PROXY header, or else from the kernel.
    pub(crate) source: SocketAddr,
    /// Address that the client connected to, if a PROXY header contained it.
    pub(crate) destination: Option<SocketAddr>,
    /// When the connection was accepted.
    pub(crate) accepted: Tick,
    /// Whether the connection is counted against the limit of its source.
    pub(crate) counted: bool,
}

/// Client's connection and its backend connection.
#[derive(Debug)]
pub(crate) struct Pair<S, P> {
    pub(crate) client: S,
    /// Socket to the backend.
    pub(crate) server: Option<S>,
    pub(crate) frontend: Arc<Frontend>,
    /// Backend whose count of connections includes this one.
    pub(crate) backend: Option<Arc<Backend>>,
    pub(crate) up: Flow<P>,
    pub(crate) down: Flow<P>,
    pub(crate) client_info: Option<Box<ClientInfo>>,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    pub(crate) tried: TriedBackends,
    /// When the last unanswered request came, in microseconds that wrap around; 0 if there is none.
    pub(crate) request_micros: u32,
    /// When bytes last moved, or the phase began.
    pub(crate) last_activity: Tenths,
    pub(crate) phase: Phase,
    /// The client's socket was full once, and is watched for room since.
    pub(crate) client_writable_watched: bool,
}

/// Memory of an idle pair: a tenth of what its sockets need in the kernel, and less than any buffer
/// would need.
const PAIR_BYTES_MAX: usize = 200;

const _: () = assert!(
    size_of::<Slot<Pair<OwnedFd, Pipe>>>() + size_of::<ClientInfo>() <= PAIR_BYTES_MAX,
    "an idle pair has grown"
);

impl<S, P> Pair<S, P> {
    /// Makes the pair of a client that has just been accepted.
    pub(crate) fn new(
        frontend: &Arc<Frontend>,
        client: S,
        peer: SocketAddr,
        accepted: Tick,
    ) -> Self {
        let settings = &frontend.settings;
        let needs_client_info = settings.access_log
            || settings.proxy_in.is_some()
            || settings.proxy_out.is_some()
            || settings.max_connections_per_source.is_some()
            || settings.balance == Balance::Source;
        let client_info = needs_client_info.then(|| {
            Box::new(ClientInfo {
                source: peer,
                destination: None,
                accepted,
                counted: false,
            })
        });
        Self {
            client,
            server: None,
            frontend: Arc::clone(frontend),
            backend: None,
            up: Flow::default(),
            down: Flow::default(),
            client_info,
            bytes_up: 0,
            bytes_down: 0,
            tried: TriedBackends::default(),
            request_micros: 0,
            last_activity: Tenths::of(accepted),
            phase: Phase::AwaitingHeader,
            client_writable_watched: false,
        }
    }

    /// Returns the flow of a direction.
    pub(crate) const fn flow(&mut self, direction: Direction) -> &mut Flow<P> {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Returns source, sink and flow of a direction; `None` while there is no backend.
    pub(crate) const fn ends(&mut self, direction: Direction) -> Option<(&S, &S, &mut Flow<P>)> {
        let Some(server) = self.server.as_ref() else {
            return None;
        };
        Some(match direction {
            Direction::Up => (&self.client, server, &mut self.up),
            Direction::Down => (server, &self.client, &mut self.down),
        })
    }

    /// Returns the socket of a side.
    pub(crate) const fn socket(&self, side: Side) -> Option<&S> {
        match side {
            Side::Client => Some(&self.client),
            Side::Backend => self.server.as_ref(),
        }
    }

    /// Counts bytes that were sent to the sink of a direction.
    pub(crate) const fn count(&mut self, direction: Direction, bytes: u64) {
        match direction {
            Direction::Up => self.bytes_up += bytes,
            Direction::Down => self.bytes_down += bytes,
        }
    }

    /// Returns whether one side is gone and the other has not been reset yet.
    pub(crate) const fn is_broken(&self) -> bool {
        matches!(self.up.state, FlowState::Broken) || matches!(self.down.state, FlowState::Broken)
    }

    /// Returns whether closing now would truncate a transfer, which must not look like its end.
    pub(crate) fn is_transferring(&self, now: Tick) -> bool {
        self.up.pending.is_some()
            || self.down.pending.is_some()
            || now.since(self.last_activity.tick()) < PAUSE_MIN
    }
}
