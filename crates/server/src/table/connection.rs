//! Record of a connection: all memory of an idle session besides its entry in the directory.

use std::os::fd::OwnedFd;

use graph::Key;
use reactor::{Interest, Slot, Tenths};
use wire::encoding::Encoding;
use wire::transport::Framing;

use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

/// Most bytes of a record. A million idle sessions take a little more than twice this.
const RECORD_BYTES_MAX: usize = 32;
const _: () = assert!(size_of::<Slot<Connection<OwnedFd>>>() <= RECORD_BYTES_MAX);
const _: () = assert!(size_of::<Connection<OwnedFd>>() == 28);
const _: () = assert!(size_of::<Session>() == 8);

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
    /// The session is fed from the history, or was until a moment ago.
    pub(crate) const REPLAY: Self = Self(1 << 5);
    /// The session has not answered its last ping.
    pub(crate) const PINGED: Self = Self(1 << 6);
    /// The connection is logged in for its polls.
    pub(crate) const POLL: Self = Self(1 << 7);
    /// The connection is counted against `max_connections`.
    pub(crate) const ADMITTED: Self = Self(1 << 8);

    /// Returns whether all tables of `other` know the connection.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether a table knows the session of the connection, which logout removes from it.
    pub(super) const fn is_logged_in(self) -> bool {
        self.0 & (Self::LEASE.0 | Self::REPLAY.0 | Self::POLL.0) != 0
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
    /// Logged in, and waits for events to be answered with; further requests wait.
    Polling,
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
                Self::Head { .. } | Self::AwaitingKeys | Self::Polling | Self::Open(_)
            ) | (Self::AwaitingKeys | Self::Polling, Self::Head { .. })
        )
    }
}

/// Session of a logged-in connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    /// The id it is logged in as, the first of them when there are several.
    pub(crate) key: Key,
    pub(crate) marks: Marks,
    /// Transport, and format of its events.
    pub(crate) encoding: Encoding,
    pub(crate) framing: Framing,
    /// What becomes of events when it reads too slowly.
    pub(crate) slow: SlowPolicy,
}

/// What is true of a session, in a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks(u8);

impl Marks {
    const SEVERAL: u8 = 1;
    const PRESENCE: u8 = 1 << 1;

    /// Marks a session that asked for presence.
    pub(crate) const fn new(hears_presence: bool) -> Self {
        Self(if hears_presence { Self::PRESENCE } else { 0 })
    }

    /// Returns these marks with whether there are several ids.
    #[must_use]
    pub(crate) const fn with_several(self, several: bool) -> Self {
        Self(self.0 & !Self::SEVERAL | several as u8)
    }

    /// Returns whether there are more ids, which the session stage keeps.
    pub(crate) const fn has_several(self) -> bool {
        self.0 & Self::SEVERAL != 0
    }

    /// Returns whether the session is told who is online.
    pub(crate) const fn hears_presence(self) -> bool {
        self.0 & Self::PRESENCE != 0
    }
}

impl Session {
    /// Returns whether its client may send messages within the session.
    pub(crate) fn may_talk(&self) -> bool {
        self.framing == Framing::WebSocket
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
