//! The record of a client's connection and its backend's. Lives in the pair table from accept to
//! close.
//!
//! An idle pair owns no buffer and no pipe: a direction holds bytes only while its sink is full,
//! and a pipe only while bulk flows.

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
    /// The client's PROXY header has not come whole.
    AwaitingHeader,
    /// The connection to a backend is not established.
    Connecting,
    /// Bytes flow both ways.
    Open,
    /// Removed when the turn ends.
    Closed,
}

/// Which way bytes flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the backend.
    Up,
    /// From the backend to the client.
    Down,
}

impl Direction {
    /// The direction whose source is `side`.
    pub(crate) const fn from_side(side: Side) -> Self {
        match side {
            Side::Client => Self::Up,
            Side::Backend => Self::Down,
        }
    }

    /// The direction whose sink is `side`.
    pub(crate) const fn to_side(side: Side) -> Self {
        Self::from_side(side).opposite()
    }

    /// The other direction.
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
    /// The source has ended its side; the sink has not taken everything yet.
    SourceEnded,
    /// The source was reset; the sink has not taken everything yet.
    SourceReset,
    /// The sink has taken everything, and was told of the end or will be told of a reset.
    Done,
    /// One side is gone. What the source still sends is not received.
    Broken,
}

/// Bytes on their way to a sink, or a pipe for them.
#[derive(Debug)]
pub(crate) enum Pending<P> {
    /// Bytes, of which the sink has taken so many.
    Bytes(Vec<u8>, usize),
    /// A pipe that holds so many bytes.
    Pipe(P, usize),
}

/// One direction of a pair.
#[derive(Debug)]
pub(crate) struct Flow<P> {
    pub(crate) pending: Option<Box<Pending<P>>>,
    pub(crate) state: FlowState,
    /// Full blocks in a row. Enough of them are bulk.
    pub(crate) full_blocks: u8,
    /// The source has bytes to receive that no signal will announce again.
    pub(crate) unread: bool,
    /// The source's end was announced: a short read has not emptied the socket.
    pub(crate) end_announced: bool,
}

impl<P> Default for Flow<P> {
    fn default() -> Self {
        Self {
            pending: None,
            state: FlowState::Open,
            full_blocks: 0,
            unread: false,
            end_announced: false,
        }
    }
}

/// The client's address and what depends on it. Kept only where a setting needs it.
#[derive(Debug)]
pub(crate) struct ClientInfo {
    /// The client's address, from a PROXY header or else from the kernel.
    pub(crate) source: SocketAddr,
    /// The address that the client connected to, if a PROXY header told it.
    pub(crate) destination: Option<SocketAddr>,
    /// When the connection was accepted.
    pub(crate) accepted: Tick,
    /// Whether it counts among its source's connections.
    pub(crate) counted: bool,
}

/// A client's connection and its backend's.
#[derive(Debug)]
pub(crate) struct Pair<S, P> {
    pub(crate) client: S,
    /// The socket to the backend.
    pub(crate) server: Option<S>,
    pub(crate) frontend: Arc<Frontend>,
    /// The backend among whose connections this one counts.
    pub(crate) backend: Option<Arc<Backend>>,
    pub(crate) up: Flow<P>,
    pub(crate) down: Flow<P>,
    pub(crate) client_info: Option<Box<ClientInfo>>,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    pub(crate) tried: TriedBackends,
    /// When the last request came that has no answer yet, in microseconds that wrap; 0 for none.
    pub(crate) request_micros: u32,
    /// When bytes last moved, or the phase began.
    pub(crate) last_activity: Tenths,
    pub(crate) phase: Phase,
    /// The client was full once, and its room to send is watched.
    pub(crate) client_writable_watched: bool,
}

/// Bytes that an idle pair may take: a tenth of what its sockets take in the kernel, and less than
/// any buffer would.
const PAIR_BYTES_MAX: usize = 200;

const _: () = assert!(
    size_of::<Slot<Pair<OwnedFd, Pipe>>>() + size_of::<ClientInfo>() <= PAIR_BYTES_MAX,
    "an idle pair has grown"
);

impl<S, P> Pair<S, P> {
    /// A pair of a client that has just been accepted.
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

    /// The flow of a direction.
    pub(crate) const fn flow(&mut self, direction: Direction) -> &mut Flow<P> {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Source, sink and flow of a direction; `None` while there is no backend.
    pub(crate) const fn ends(&mut self, direction: Direction) -> Option<(&S, &S, &mut Flow<P>)> {
        let Some(server) = self.server.as_ref() else {
            return None;
        };
        Some(match direction {
            Direction::Up => (&self.client, server, &mut self.up),
            Direction::Down => (server, &self.client, &mut self.down),
        })
    }

    /// The socket of a side.
    pub(crate) const fn socket(&self, side: Side) -> Option<&S> {
        match side {
            Side::Client => Some(&self.client),
            Side::Backend => self.server.as_ref(),
        }
    }

    /// Counts bytes that the sink of a direction took.
    pub(crate) const fn count(&mut self, direction: Direction, bytes: u64) {
        match direction {
            Direction::Up => self.bytes_up += bytes,
            Direction::Down => self.bytes_down += bytes,
        }
    }

    /// Whether one side is gone and the other was not told yet.
    pub(crate) const fn is_broken(&self) -> bool {
        matches!(self.up.state, FlowState::Broken) || matches!(self.down.state, FlowState::Broken)
    }

    /// Whether closing now would cut a transfer short, which must not look like its end.
    pub(crate) fn is_transferring(&self, now: Tick) -> bool {
        self.up.pending.is_some()
            || self.down.pending.is_some()
            || now.since(self.last_activity.tick()) < PAUSE_MIN
    }
}
