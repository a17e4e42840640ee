//! Search for the events that a session missed.
//!
//! The events of a subject form a chain from the latest to the oldest. A search walks the chains of
//! all subjects that the session follows back to its cursor, and sorts the events found.

use graph::Key;

use crate::history::History;
use crate::record::Reach;
use crate::segments::Place;

/// Subject that a session follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Key of the subject.
    pub key: Key,
    /// Position after which the session is to get the events: its cursor or, if later, the position
    /// at which it began to follow the subject.
    pub after: u64,
    /// Whether the session is logged in as the subject. Only then it gets events with
    /// [`Reach::Subject`].
    pub is_own: bool,
}

/// Event that a session has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// Position of the event.
    pub position: u64,
    /// Place of the event.
    pub place: Place,
}

impl History {
    /// Finds the events up to and including `last` for a session that follows these subjects, each
    /// given once. Replaces the contents of `missed` with the first `count_max` of them, in
    /// ascending order. Returns whether there are more.
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
            for event in self.chain(key, after, last, is_own) {
                missed.push(event);
                if is_many(missed.len(), count_max) {
                    more |= keep_first(missed, count_max);
                }
            }
        }
        more |= keep_first(missed, count_max);
        missed.sort_unstable_by_key(|missed| missed.position);
        more
    }

    /// Finds the latest events up to and including `last` for a session that follows these
    /// subjects, each given once. Replaces the contents of `found` with the last `count_max` of
    /// them, in ascending order.
    pub fn latest(
        &self,
        followed: impl IntoIterator<Item = Followed>,
        last: u64,
        count_max: usize,
        found: &mut Vec<Missed>,
    ) {
        found.clear();
        // Events up to this position are not among the latest.
        let mut floor = 0;
        for Followed { key, after, is_own } in followed {
            for missed in self.chain(key, after.max(floor), last, is_own) {
                found.push(missed);
                if is_many(found.len(), count_max) {
                    keep_last(found, count_max);
                    floor = found
                        .iter()
                        .map(|missed| missed.position)
                        .min()
                        .unwrap_or(floor);
                    if missed.position <= floor {
                        break;
                    }
                }
            }
        }
        keep_last(found, count_max);
        found.sort_unstable_by_key(|missed| missed.position);
    }

    /// Finds the last `count` events of each of these subjects, up to and including `last` and
    /// after the position given with the subject. Replaces the contents of `found` with the first
    /// `count_max` of them, in ascending order. Returns whether there are more.
    pub fn rewind(
        &self,
        followed: impl IntoIterator<Item = Followed>,
        last: u64,
        count: usize,
        count_max: usize,
        found: &mut Vec<Missed>,
    ) -> bool {
        found.clear();
        let mut more = false;
        for Followed { key, after, is_own } in followed {
            found.extend(self.chain(key, after, last, is_own).take(count));
            if is_many(found.len(), count_max) {
                more |= keep_first(found, count_max);
            }
        }
        more |= keep_first(found, count_max);
        found.sort_unstable_by_key(|missed| missed.position);
        more
    }

    /// Returns whether an event that was found earlier is still stored and is for a session that
    /// follows these subjects, which must ascend by key.
    pub fn concerns(&self, missed: &Missed, followed: &[Followed]) -> bool {
        let Some(header) = self.segments.header(missed.place) else {
            return false;
        };
        let subject = followed.binary_search_by_key(&header.key, |followed| followed.key);
        subject.is_ok_and(|at| {
            let Followed { after, is_own, .. } = followed[at];
            header.position > after && (is_own || header.reach == Reach::Subscribers)
        })
    }

    /// Returns the events about a subject for a session, above `after` and up to `last`, the latest
    /// first.
    fn chain(&self, key: Key, after: u64, last: u64, is_own: bool) -> impl Iterator<Item = Missed> {
        let mut next = self.index.get(key);
        std::iter::from_fn(move || {
            loop {
                let place = next?;
                let header = self.segments.header(place)?;
                if header.position <= after {
                    return None;
                }
                next = header.previous;
                if header.position <= last && (is_own || header.reach == Reach::Subscribers) {
                    let position = header.position;
                    return Some(Missed { position, place });
                }
            }
        })
    }
}

/// Returns whether so many events were found that some must be dropped now, so that the memory of a
/// search does not grow with the length of an absence.
const fn is_many(found: usize, count_max: usize) -> bool {
    found > count_max.saturating_mul(2).saturating_add(1024)
}

/// Keeps only the last `count_max` events, in any order.
fn keep_last(found: &mut Vec<Missed>, count_max: usize) {
    if found.len() > count_max {
        let excess = found.len() - count_max;
        found.select_nth_unstable_by_key(excess - 1, |missed| missed.position);
        found.drain(..excess);
    }
}

/// Keeps only the first `count_max` events, in any order. Returns whether there were more.
fn keep_first(missed: &mut Vec<Missed>, count_max: usize) -> bool {
    if missed.len() <= count_max {
        return false;
    }
    missed.select_nth_unstable_by_key(count_max, |missed| missed.position);
    missed.truncate(count_max);
    true
}
