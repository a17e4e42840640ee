//! Policies for slow readers: what becomes of events that a session's full socket does not take.

/// Policy for events that wait for a full socket, when more wait than a backlog may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SlowPolicy {
    /// Close the session.
    Close = 0,
    /// Drop the oldest events, and tell the client how many.
    DropOldest = 1,
    /// Replace a waiting event by a later one of the same subject and type; beyond that, drop the
    /// oldest.
    Latest = 2,
    /// Drop all events that wait, and read on from the history when the socket has room. Without a
    /// history, close the session.
    #[default]
    CatchUp = 3,
}

impl SlowPolicy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Close, Self::CatchUp, Self::DropOldest, Self::Latest];

    /// Returns the name used in settings and URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::DropOldest => "drop-oldest",
            Self::Latest => "latest",
            Self::CatchUp => "catch-up",
        }
    }

    /// Returns the policy of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Returns whether waiting events may be dropped.
    pub(crate) const fn drops(self) -> bool {
        matches!(self, Self::DropOldest | Self::Latest)
    }
}
