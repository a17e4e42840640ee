//! The record of a connection and its backend's. Lives in the worker's slab from accept to close.
//!
//! An idle pair owns no buffer and no pipe: a direction holds something only while the side that shall
//! take it is full, or while bulk flows.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use reactor::{Pipe, Slot, Tick};

use crate::tcp::backend::Backend;
use crate::tcp::balance::Tried;
use crate::tcp::front::Front;
use crate::tcp::names::Side;

/// A time in tenths of a second since the worker began: half the size of a [`Tick`], for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tenths(u32);

impl Tenths {
    const MILLIS: u64 = 100;

    /// The tenth that `tick` falls into. Wraps after thirteen years.
    pub(crate) const fn of(tick: Tick) -> Self {
        Self((tick.0 / Self::MILLIS) as u32)
    }

    /// The beginning of the tenth.
    pub(crate) const fn tick(self) -> Tick {
        Tick(self.0 as u64 * Self::MILLIS)
    }
}

/// What a pair is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The client's PROXY header is awaited.
    Greeting,
    /// The backend is awaited.
    Connecting,
    /// Bytes go both ways.
    Open,
    /// Gone when the turn ends.
    Closed,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the backend.
    Up,
    /// From the backend to the client.
    Down,
}

impl Direction {
    /// The direction in which bytes leave `side`.
    pub(crate) const fn from(side: Side) -> Self {
        match side {
            Side::Client => Self::Up,
            Side::Backend => Self::Down,
        }
    }

    /// The direction in which bytes reach `side`.
    pub(crate) const fn to(side: Side) -> Self {
        match side {
            Side::Client => Self::Down,
            Side::Backend => Self::Up,
        }
    }

    pub(crate) const fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// The side that takes the bytes.
    pub(crate) const fn taker(self) -> Side {
        match self {
            Self::Up => Side::Backend,
            Self::Down => Side::Client,
        }
    }
}

/// How far a direction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowState {
    /// More may come.
    Open,
    /// The giver has ended; what is held is still to be taken.
    Ended,
    /// The giver broke; what is held is still to be taken.
    Reset,
    /// All is taken; the taker knows that it was all, or a reset will tell it.
    Done,
    /// A side is gone. What the giver has left to say nobody hears.
    Broken,
}

/// What a full taker must wait for, or a pipe that bulk flows through.
#[derive(Debug)]
pub(crate) enum Held<P> {
    /// Bytes, of which so many are taken.
    Bytes(Vec<u8>, usize),
    /// A pipe with so many bytes in it.
    Pipe(P, usize),
}

/// One direction of a pair.
#[derive(Debug)]
pub(crate) struct Flow<P> {
    pub(crate) held: Option<Box<Held<P>>>,
    pub(crate) state: FlowState,
    /// Full blocks in a row.
    pub(crate) streak: u8,
    /// The giver has something to receive that no signal will announce again.
    pub(crate) unread: bool,
    /// The giver's end was announced: it is among what is to be received.
    pub(crate) ended: bool,
}

impl<P> Default for Flow<P> {
    fn default() -> Self {
        Self {
            held: None,
            state: FlowState::Open,
            streak: 0,
            unread: false,
            ended: false,
        }
    }
}

/// Who the client is. Kept only where somebody will ask.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The client, as a PROXY header told or as the kernel says.
    pub(crate) source: SocketAddr,
    /// Where the client connected to, if a header told.
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) since: Tick,
    /// Whether it counts among its source's connections.
    pub(crate) counted: bool,
}

/// A client's connection and its backend's.
#[derive(Debug)]
pub(crate) struct Pair<S, P> {
    pub(crate) client: S,
    pub(crate) backend: Option<S>,
    pub(crate) front: Arc<Front>,
    /// The backend whose connections this is one of.
    pub(crate) server: Option<Arc<Backend>>,
    pub(crate) up: Flow<P>,
    pub(crate) down: Flow<P>,
    pub(crate) origin: Option<Box<Origin>>,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    pub(crate) tried: Tried,
    /// Microseconds, wrapping, when the last request came that is not answered; 0 for none.
    pub(crate) asked: u32,
    /// When it last moved, or its phase began.
    pub(crate) moved: Tenths,
    pub(crate) phase: Phase,
    /// The client was full once, and its room is watched.
    pub(crate) room_watched: bool,
}

/// What an idle pair may take in all: a tenth of what its sockets take in the kernel, and less than any
/// buffer would.
const PAIR_BYTES_MAX: usize = 200;

const _: () = assert!(
    size_of::<Slot<Pair<OwnedFd, Pipe>>>() + size_of::<Origin>() <= PAIR_BYTES_MAX,
    "an idle pair has grown"
);

impl<S, P> Pair<S, P> {
    pub(crate) const fn flow(&mut self, direction: Direction) -> &mut Flow<P> {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Giver, taker and flow of a direction; `None` while there is no backend.
    pub(crate) fn ends(&mut self, direction: Direction) -> Option<(&S, &S, &mut Flow<P>)> {
        let backend = self.backend.as_ref()?;
        Some(match direction {
            Direction::Up => (&self.client, backend, &mut self.up),
            Direction::Down => (backend, &self.client, &mut self.down),
        })
    }

    pub(crate) const fn socket(&self, side: Side) -> Option<&S> {
        match side {
            Side::Client => Some(&self.client),
            Side::Backend => self.backend.as_ref(),
        }
    }

    pub(crate) const fn count(&mut self, direction: Direction, count: u64) {
        match direction {
            Direction::Up => self.bytes_up += count,
            Direction::Down => self.bytes_down += count,
        }
    }
}
