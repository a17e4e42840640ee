//! Search for the events that a session missed.
//!
//! The events of a subject are a chain from the latest to the oldest. A search follows the chains
//! of all subjects that the session follows as far back as its cursor, and sorts what it found.

use graph::Key;

use crate::history::History;
use crate::record::Reach;
use crate::segments::Place;

/// Subject that a session follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Key of the subject.
    pub key: Key,
    /// Position after which events concern the session: its cursor, or, if later, when it began to
    /// follow the subject.
    pub after: u64,
    /// Whether the session is logged in as the subject: only then an event with
    /// [`Reach::Subject`] concerns it.
    pub is_own: bool,
}

/// Event that a session missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// Position of the event.
    pub position: u64,
    /// Place of the event.
    pub place: Place,
}

impl History {
    /// Finds the events up to and including `last` that concern a session that follows these
    /// subjects, each named once. Replaces the contents of `missed` with the first `count_max` of
    /// them, in ascending order. Returns whether there are more.
    pub fn missed(
        &self,
        followed: impl IntoIterator<Item = Followed>,
        last: u64,
        count_max: usize,
        missed: &mut Vec<Missed>,
    ) -> bool {
        missed.clear();
        let mut more = false;
        for Followed { key, after, is_own } in followed {
            let mut next = self.index.get(key);
            while let Some(place) = next
                && let Some(header) = self.segments.header(place)
                && header.position > after
            {
                next = header.previous;
                if header.position <= last && (is_own || header.reach == Reach::Subscribers) {
                    let position = header.position;
                    missed.push(Missed { position, place });
                }
            }
            // What is found is kept small: a long absence must not cost memory in proportion.
            if missed.len() > count_max.saturating_mul(2).saturating_add(1024) {
                more |= keep_first(missed, count_max);
            }
        }
        more |= keep_first(missed, count_max);
        missed.sort_unstable_by_key(|missed| missed.position);
        more
    }

    /// Finds the last `count_max` events of each of these subjects, whatever a session has seen.
    /// Replaces the contents of `found`, in ascending order.
    pub fn rewind(
        &self,
        followed: impl IntoIterator<Item = Followed>,
        count_max: usize,
        found: &mut Vec<Missed>,
    ) {
        found.clear();
        for Followed { key, after, is_own } in followed {
            let mut next = self.index.get(key);
            let mut left = count_max;
            while left > 0
                && let Some(place) = next
                && let Some(header) = self.segments.header(place)
                && header.position > after
            {
                next = header.previous;
                if is_own || header.reach == Reach::Subscribers {
                    left -= 1;
                    let position = header.position;
                    found.push(Missed { position, place });
                }
            }
        }
        found.sort_unstable_by_key(|missed| missed.position);
    }
}

/// Keeps the first `count_max` events, in any order. Returns whether there were more.
fn keep_first(missed: &mut Vec<Missed>, count_max: usize) -> bool {
    if missed.len() <= count_max {
        return false;
    }
    missed.select_nth_unstable_by_key(count_max, |missed| missed.position);
    missed.truncate(count_max);
    true
}
