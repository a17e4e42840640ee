//! Doubt: a sign that the log is not the one that this node applies, which counts only if it stays.
//!
//! One answer proves nothing. A leader that was just elected may not have all entries yet, and one
//! that was cut off answers for some seconds as if it led.

use std::time::Duration;

/// Time for which a sign must stay. Elections take 4 to 9 s, and a leader that is alone is not
/// believed after [`FOLLOWERS_SILENT_MAX`](crate::stream::FOLLOWERS_SILENT_MAX).
const STAYS_FOR: Duration = Duration::from_secs(15);

/// Signs that there must be within that time: a node that stood still may read an old answer when
/// it goes on.
const SIGNS_MIN: u32 = 5;

/// A sign that there is something wrong, since when, and how often it was seen. Owned by the task
/// that looks for it.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    since: Option<Duration>,
    signs: u32,
}

impl Doubt {
    /// Notes whether the sign was seen at `now`. Returns whether it has stayed for so long that it
    /// counts.
    pub(crate) fn note(&mut self, now: Duration, is_seen: bool) -> bool {
        if !is_seen {
            *self = Self::default();
            return false;
        }
        self.signs = self.signs.saturating_add(1);
        let since = *self.since.get_or_insert(now);
        self.signs >= SIGNS_MIN && now >= since + STAYS_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_sign_counts_when_it_has_stayed() {
        let mut doubt = Doubt::default();
        for second in 10..25 {
            assert!(!doubt.note(seconds(second), true), "{second}");
        }
        assert!(doubt.note(seconds(25), true));
        assert!(!doubt.note(seconds(26), false), "and not after another one");
        for second in 27..42 {
            assert!(!doubt.note(seconds(second), true), "{second}");
        }
        assert!(doubt.note(seconds(42), true));
    }

    #[test]
    fn a_sign_of_a_moment_counts_for_nothing_however_long_ago_it_began() {
        let mut doubt = Doubt::default();
        for second in (0..1000).step_by(14) {
            assert!(!doubt.note(seconds(second), true));
            assert!(!doubt.note(seconds(second + 13), true));
            assert!(!doubt.note(seconds(second + 13), false));
        }
        // A node that stood still reads what was said before.
        for second in [2000, 2001, 3000, 3000] {
            assert!(!doubt.note(seconds(second), true), "{second}");
        }
        assert!(doubt.note(seconds(3000), true));
    }
}
