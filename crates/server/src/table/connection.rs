//! Record of a connection: all memory of an idle session besides its entry in the directory.

use std::os::fd::OwnedFd;

use graph::Key;
use reactor::{Interest, Slot, Tenths};
use wire::transport::{Framing, Transport};

use crate::stats::Metric;

/// Most bytes of a record. A million idle sessions take a little more than twice this.
const RECORD_BYTES_MAX: usize = 32;
const _: () = assert!(size_of::<Slot<Connection<OwnedFd>>>() <= RECORD_BYTES_MAX);

/// Connection. Owned by its worker's slab from accept to close.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    pub(crate) socket: S,
    /// Time when the current phase began.
    pub(crate) since: Tenths,
    /// Place among the sessions with frames in this turn; see [`crate::fanout`].
    pub(crate) owed: Option<OwedPlace>,
    pub(crate) phase: Phase,
    /// The earliest pending deadline. When it fires, the phase at that time is checked.
    pub(crate) due: Tenths,
    /// Whether the socket is full and frames wait in a backlog.
    pub(crate) blocked: bool,
    /// Conditions that the poller reports; `None` while the connection is being accepted.
    pub(crate) watched: Option<Interest>,
    /// Whether the connection is counted against `max_connections`.
    pub(crate) admitted: bool,
    /// Side tables that know the connection.
    pub(crate) extras: Extras,
}

/// Set of side tables by slot, in a byte. A table whose bit is clear is never asked, so that what
/// few connections need costs the others nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extras(u8);

impl Extras {
    /// No side table.
    pub(crate) const NONE: Self = Self(0);
    /// The session has a lease: an end, and what can be revoked.
    pub(crate) const LEASE: Self = Self(1);
    /// The connection is encrypted.
    pub(crate) const TLS: Self = Self(1 << 1);
    /// A whole ClientHello waits for the turn in which its handshake may begin.
    pub(crate) const CLIENT_HELLO: Self = Self(1 << 2);

    /// Returns whether all tables of `other` know the connection.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds the tables of `other`.
    pub(crate) const fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Removes the tables of `other`.
    pub(crate) const fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

/// Place among the sessions with frames in this turn, from 1.
pub(crate) type OwedPlace = std::num::NonZeroU32;

/// Phase of a connection's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between requests, or within a head whose first bytes the ingress stage keeps.
    Head { partial: bool },
    /// The control API works on its request; input waits.
    AwaitingControl,
    /// The key of its token is not known, and the key sets are fetched; input waits.
    AwaitingKeys,
    /// Logged in and streaming. Owns no buffer while its socket takes what it is given.
    Open(Session),
    /// The last bytes are on their way and input is ignored, until the peer ends its side too.
    Ending { reason: CloseReason },
    /// Closed, and removed when the turn ends.
    Closed,
}

/// Session of a logged-in connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    /// The id it is logged in as, the first of them when there are several.
    pub(crate) key: Key,
    /// Whether there are more ids, which the session stage keeps.
    pub(crate) several: bool,
    pub(crate) transport: Transport,
    pub(crate) framing: Framing,
}

/// Reason why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The peer ended its side.
    Peer,
    /// The connection broke, or the peer acknowledged nothing for too long.
    Reset,
    /// A head, an answer or a farewell took too long.
    Timeout,
    /// More was owed than a backlog may hold, or nothing was taken for too long.
    Slow,
    /// The request was answered with an error after which the connection cannot go on.
    Rejected,
    /// The last answer was given.
    Done,
    /// The control API asked for it.
    Kicked,
    /// The identity behind the session has ended.
    Expired,
    /// The identity behind the session was revoked.
    Revoked,
    /// The server is ending.
    Drain,
}

impl CloseReason {
    pub(crate) const fn metric(self) -> Metric {
        match self {
            Self::Peer => Metric::ClosedPeer,
            Self::Reset => Metric::ClosedReset,
            Self::Timeout => Metric::ClosedTimeout,
            Self::Slow => Metric::ClosedSlow,
            Self::Rejected => Metric::ClosedRejected,
            Self::Done => Metric::ClosedDone,
            Self::Kicked => Metric::ClosedKicked,
            Self::Expired => Metric::ClosedExpired,
            Self::Revoked => Metric::ClosedRevoked,
            Self::Drain => Metric::ClosedDrain,
        }
    }
}
