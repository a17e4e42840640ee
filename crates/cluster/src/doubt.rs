//! Doubt whether the log is still the one that this node applies. A sign counts only if it
//! persists.
//!
//! A single answer proves nothing: a leader that was just elected may not have all entries yet, and
//! a leader that was cut off continues to answer for some seconds.

use std::time::Duration;

/// Time for which a sign must persist. Elections take 4 to 9 s, and a leader without followers is
/// not trusted after [`FOLLOWERS_SILENT_MAX`](crate::stream::FOLLOWERS_SILENT_MAX).
const STAYS_FOR: Duration = Duration::from_secs(15);

/// Minimum number of signs within that time: a node that was stalled may read an old answer when it
/// continues.
const SIGNS_MIN: u32 = 5;

/// Time of the first sign and number of signs. Owned by the task that looks for them.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    since: Option<Duration>,
    signs: u32,
}

impl Doubt {
    /// Records whether the sign was seen at `now`. Returns whether it has persisted long enough to
    /// count.
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
    fn a_sign_counts_when_it_has_persisted() {
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
    fn a_few_signs_do_not_count_however_long_ago_the_first_was() {
        let mut doubt = Doubt::default();
        for second in (0..1000).step_by(14) {
            assert!(!doubt.note(seconds(second), true));
            assert!(!doubt.note(seconds(second + 13), true));
            assert!(!doubt.note(seconds(second + 13), false));
        }
        // A node that was stalled reads old answers.
        for second in [2000, 2001, 3000, 3000] {
            assert!(!doubt.note(seconds(second), true), "{second}");
        }
        assert!(doubt.note(seconds(3000), true));
    }
}
