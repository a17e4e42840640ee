//! Searches of the history for what sessions missed, kept from step to step.
//!
//! A search follows the events of all subjects from the latest to the first that was missed. Its
//! result is kept while it is longer than a step, so that the next steps need no search.

use std::collections::VecDeque;

use graph::Key;
use history::Missed;
use reactor::SlotKey;
use router::{Mailboxes, Router};

use crate::limits::Limits;

/// Searches of a worker, the oldest first.
#[derive(Debug)]
pub(super) struct Searches {
    pub(super) limits: &'static Limits,
    kept: VecDeque<Search>,
}

/// Result of a search.
#[derive(Debug)]
struct Search {
    key: SlotKey,
    /// Position after which it searched.
    after: u64,
    /// All events between there and the last of them that concerned the session, ascending.
    found: Vec<Missed>,
}

impl Searches {
    pub(super) const fn new(limits: &'static Limits) -> Self {
        let kept = VecDeque::new();
        Self { limits, kept }
    }

    /// Finds the events after a position, up to and including `last`, that concern a session.
    /// Replaces the contents of `missed` with those of the next step, in ascending order. Returns
    /// whether there may be more; then the graph may have changed since they were found.
    pub(super) fn search<M: Mailboxes>(
        &mut self,
        router: &Router<M>,
        key: SlotKey,
        keys: &[Key],
        after: u64,
        last: u64,
        missed: &mut Vec<Missed>,
    ) -> bool {
        missed.clear();
        if let Some(at) = self.kept.iter().position(|search| search.key == key) {
            let search = &self.kept[at];
            let rest = search.rest(after);
            missed.extend_from_slice(&rest[..rest.len().min(self.limits.replay_events_per_step)]);
            if !missed.is_empty() {
                return true;
            }
            self.kept.remove(at);
        }
        let more = router.missed(keys, after, last, self.limits.search_events_max, missed);
        if missed.len() <= self.limits.replay_events_per_step {
            return more;
        }
        let found = missed.clone();
        missed.truncate(self.limits.replay_events_per_step);
        if self.kept.len() == self.limits.searches_kept_max {
            self.kept.pop_front();
        }
        self.kept.push_back(Search { key, after, found });
        true
    }

    /// Returns the memory of all results.
    pub(super) fn bytes(&self) -> usize {
        let found = self.kept.iter().map(|search| search.found.capacity());
        found.sum::<usize>() * size_of::<Missed>()
    }

    /// Keeps the searches of some sessions only.
    pub(super) fn retain(&mut self, is_kept: impl Fn(SlotKey) -> bool) {
        self.kept.retain(|search| is_kept(search.key));
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

impl Search {
    /// Returns the events after a position; none if it did not search there.
    fn rest(&self, after: u64) -> &[Missed] {
        if after < self.after {
            return &[];
        }
        let sent = self
            .found
            .partition_point(|missed| missed.position <= after);
        &self.found[sent..]
    }
}

#[cfg(test)]
mod tests {
    use history::{Entry, Followed, History, Limits, Reach};

    use super::*;

    #[test]
    fn a_search_is_used_for_what_it_has_looked_at_only() {
        let limits = Limits {
            bytes: 1 << 20,
            age_seconds: None,
        };
        let mut history = History::new(limits, 0);
        let subject = Key::from_cursor(1);
        for position in 1..=5 {
            let entry = Entry {
                position,
                key: subject,
                reach: Reach::Subscribers,
                tag: 0,
                event_type: "",
                payload: b"0",
            };
            history.append(&entry, 0, &mut Vec::new());
        }
        let (after, is_own) = (2, true);
        let followed = Followed {
            key: subject,
            after,
            is_own,
        };
        let mut found = Vec::new();
        history.missed([followed], 5, 10, &mut found);
        let (index, generation) = (0, 0);
        let key = SlotKey { index, generation };
        let search = Search { key, after, found };
        let rest = |after| search.rest(after).iter().map(|missed| missed.position);
        assert!(rest(1).eq(0..0), "it has not looked at 2");
        assert!(rest(2).eq(3..6));
        assert!(rest(4).eq(5..6));
        assert!(rest(5).eq(0..0));
    }
}
