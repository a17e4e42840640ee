//! Record of a connection: all memory of an idle session besides its entry in the directory.

use std::os::fd::OwnedFd;

use reactor::{Interest, Slot, Tenths};

use crate::open_session::Session;
use crate::stats::Metric;

/// Most bytes of a record. A million idle sessions take a little more than twice this.
const RECORD_BYTES_MAX: usize = 32;
const _: () = assert!(size_of::<Slot<Connection<OwnedFd>>>() <= RECORD_BYTES_MAX);
const _: () = assert!(size_of::<Connection<OwnedFd>>() == 28);

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
    /// Side tables that know the connection, and what else is true of it.
    pub(crate) extras: Extras,
}

/// Set of side tables by slot, and of what else is true of a connection, in two bytes: seven bits
/// are free. A table whose bit is clear is never asked, so that what few connections need costs the
/// others nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extras(u16);

impl Extras {
    /// No side table.
    pub(crate) const NONE: Self = Self(0);
    /// The session has a lease: an end, and what can be revoked.
    pub(crate) const LEASE: Self = Self(1);
    /// The connection is encrypted.
    pub(crate) const TLS: Self = Self(1 << 1);
    /// A whole ClientHello waits for the turn in which its handshake may begin.
    pub(crate) const CLIENT_HELLO: Self = Self(1 << 2);
    /// The connection must begin with a PROXY header, which has not come whole.
    pub(crate) const PROXY_HEADER: Self = Self(1 << 3);
    /// The connection began with a PROXY header.
    pub(crate) const PROXIED: Self = Self(1 << 4);
    /// Another stage than the fan-out sends the session its events, or did until a moment ago.
    pub(crate) const FED: Self = Self(1 << 5);
    /// The session has not answered its last ping.
    pub(crate) const PINGED: Self = Self(1 << 6);
    /// The connection is logged in although no session is open on it.
    pub(crate) const LOGIN: Self = Self(1 << 7);
    /// The connection is counted against `max_connections`.
    pub(crate) const ADMITTED: Self = Self(1 << 8);

    /// Returns whether all tables of `other` know the connection.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether a table knows the session of the connection, which logout removes from it.
    pub(super) const fn is_logged_in(self) -> bool {
        self.0 & (Self::LEASE.0 | Self::FED.0 | Self::LOGIN.0) != 0
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
    /// The key of its token is not known, and the key sets are fetched; input waits.
    AwaitingKeys,
    /// A request waits for its answer, for as long as the stage that owes it decides. Further
    /// requests wait.
    Pending,
    /// Logged in and streaming. Owns no buffer while its socket takes what it is given.
    Open(Session),
    /// The last bytes are on their way and input is ignored, until the peer ends its side too.
    Ending { reason: CloseReason },
    /// Closed, and removed when the turn ends.
    Closed,
}

impl Phase {
    /// Returns the session that is open.
    pub(crate) const fn session(self) -> Option<Session> {
        match self {
            Self::Open(session) => Some(session),
            _ => None,
        }
    }

    /// Returns whether a connection may begin this phase in another one. It ends from any.
    pub(crate) const fn may_follow(self, before: Self) -> bool {
        matches!(
            (before, self),
            (
                Self::Head { .. },
                Self::Head { .. } | Self::AwaitingKeys | Self::Pending | Self::Open(_)
            ) | (Self::AwaitingKeys | Self::Pending, Self::Head { .. })
        )
    }
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
    /// Returns its name, as in the metric of closed connections.
    pub(crate) fn name(self) -> &'static str {
        let label = self.metric().describe().label;
        label.map_or("", |(_, reason)| reason)
    }

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
