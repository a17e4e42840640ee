//! Session that is open on a connection, as its record holds it.

use graph::Key;
use wire::encoding::Encoding;
use wire::transport::Framing;

use crate::slow_policy::SlowPolicy;

const _: () = assert!(size_of::<Session>() == 8);

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
