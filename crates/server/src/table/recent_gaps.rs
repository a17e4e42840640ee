//! The latest notices of lost events, for those who ask about a session.

use std::collections::VecDeque;

use reactor::{SlotKey, Tick};

/// Notices that a worker remembers: 6 KiB. Each is a session whose client has lost events, which is
/// rare; an operator who asks why looks at the latest.
const RECENT_GAPS_MAX: usize = 256;

/// A notice of lost events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecentGap {
    key: SlotKey,
    /// Events that were lost.
    pub(crate) lost: u64,
    /// When the session was told.
    pub(crate) told: Tick,
}

/// The latest notices, the oldest first. One for each worker; what is beyond the bound is
/// forgotten. A session may be in it several times: a worker that tells all of its sessions looks
/// nothing up.
#[derive(Debug, Default)]
pub(crate) struct RecentGaps(VecDeque<RecentGap>);

impl RecentGaps {
    /// Remembers that a session was told of lost events.
    pub(super) fn add(&mut self, key: SlotKey, lost: u64, told: Tick) {
        if self.0.len() == RECENT_GAPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(RecentGap { key, lost, told });
    }

    /// Returns the latest notice of a session.
    pub(crate) fn of(&self, key: SlotKey) -> Option<RecentGap> {
        self.0.iter().rev().find(|gap| gap.key == key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(index: u32, generation: u32) -> SlotKey {
        SlotKey { index, generation }
    }

    #[test]
    fn the_latest_notice_of_a_session_is_remembered_up_to_a_bound() {
        let mut gaps = RecentGaps::default();
        gaps.add(key(1, 0), 5, Tick::default());
        gaps.add(key(1, 0), 7, Tick::default());
        assert_eq!(gaps.of(key(1, 0)).map(|gap| gap.lost), Some(7));
        // Another connection in the same slot was told nothing.
        assert_eq!(gaps.of(key(1, 1)), None);
        for index in 2..=RECENT_GAPS_MAX as u32 {
            gaps.add(key(index, 0), 1, Tick::default());
        }
        assert_eq!(gaps.of(key(1, 0)).map(|gap| gap.lost), Some(7));
        gaps.add(key(0, 0), 1, Tick::default());
        assert_eq!(gaps.of(key(1, 0)), None, "the oldest makes room");
        assert_eq!(gaps.0.len(), RECENT_GAPS_MAX);
    }
}
