//! What a session missed: the subjects that it follows, searched in the history.
//!
//! The graph is read as it is now: a session gets nothing of a subject that its ids no longer
//! follow, as it would live. It gets nothing either from before an id began to follow a subject.
//! The graph remembers the latest million additions since the start of the server, a thousand in
//! each of 1,024 groups of subscribers; subscriptions that were made earlier, or imported, count as
//! older than all events.
//!
//! Events that leave the history during a search are not found. So the caller looks for a gap
//! ([`History::gap`](history::History::gap)) after each search.

use std::cell::RefCell;
use std::iter::Copied;
use std::slice::Iter;

use graph::Key;
use history::{Followed, History, Missed};

use crate::mailboxes::Mailboxes;
use crate::route::Router;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Working memory: the subjects of one session.
#[derive(Default)]
struct Scratch {
    followed: Vec<Followed>,
    keys: Vec<Key>,
    additions: Vec<(Key, u64)>,
}

impl<M: Mailboxes> Router<M> {
    /// Finds the events after a position, up to and including `last`, that concern a session with
    /// these keys. Replaces the contents of `missed` with the first `count_max` of them, in
    /// ascending order. Returns whether there are more.
    pub fn missed(
        &self,
        keys: &[Key],
        after: u64,
        last: u64,
        count_max: usize,
        missed: &mut Vec<Missed>,
    ) -> bool {
        let more = self.search(keys, after, missed, |history, followed, found| {
            history.missed(followed, last, count_max, found)
        });
        let are_many = missed.len() > count_max;
        missed.truncate(count_max);
        more || are_many
    }

    /// Finds the latest events after a position, up to and including `last`, that concern a session
    /// with these keys, `count_max` at most. Replaces the contents of `found`, in ascending order.
    pub fn latest(
        &self,
        keys: &[Key],
        after: u64,
        last: u64,
        count_max: usize,
        found: &mut Vec<Missed>,
    ) {
        self.search(keys, after, found, |history, followed, found| {
            history.latest(followed, last, count_max, found);
            false
        });
        found.drain(..found.len().saturating_sub(count_max));
    }

    /// Finds, of the last `count` events up to and including `last` of each subject that a session
    /// with these keys follows, those after a position. Replaces the contents of `found` with the
    /// first `count_max` of them, in ascending order. Returns whether there are more.
    pub fn rewind(
        &self,
        keys: &[Key],
        after: u64,
        last: u64,
        count: usize,
        count_max: usize,
        found: &mut Vec<Missed>,
    ) -> bool {
        let more = self.search(keys, after, found, |history, followed, found| {
            history.rewind(followed, last, count, count_max, found)
        });
        let are_many = found.len() > count_max;
        found.truncate(count_max);
        more || are_many
    }

    /// Keeps, of events after a position that were found earlier, those that concern a session with
    /// these keys by the graph as it is now.
    pub fn retain_concerning(&self, keys: &[Key], after: u64, found: &mut Vec<Missed>) {
        let Some(recorder) = self.recorder() else {
            return found.clear();
        };
        self.with_followed(keys, after, |followed| {
            let mut followed = followed.to_vec();
            followed.sort_unstable_by_key(|followed| followed.key);
            recorder.read(|history| {
                found.retain(|missed| history.concerns(missed, &followed));
            });
        });
    }

    /// Searches a slice of the subjects at a time, as publishers wait while the history is read.
    /// Sets `found` to what was found of all slices, in ascending order. Returns whether a slice
    /// has more.
    fn search(
        &self,
        keys: &[Key],
        after: u64,
        found: &mut Vec<Missed>,
        search: impl Fn(&History, Copied<Iter<'_, Followed>>, &mut Vec<Missed>) -> bool,
    ) -> bool {
        found.clear();
        let Some(recorder) = self.recorder() else {
            return false;
        };
        let mut more = false;
        self.with_followed(keys, after, |followed| {
            for (nth, slice) in followed.chunks(self.slice).enumerate() {
                let followed = slice.iter().copied();
                if nth == 0 {
                    more |= recorder.read(|history| search(history, followed, found));
                } else {
                    let mut others = Vec::new();
                    more |= recorder.read(|history| search(history, followed, &mut others));
                    found.append(&mut others);
                }
            }
        });
        found.sort_unstable_by_key(|missed| missed.position);
        more
    }

    /// Calls `search` with the subjects of a session, each once, and with the position after which
    /// its events concern the session.
    fn with_followed<T>(
        &self,
        keys: &[Key],
        after: u64,
        search: impl FnOnce(&[Followed]) -> T,
    ) -> T {
        SCRATCH.with_borrow_mut(|scratch| {
            let followed = &mut scratch.followed;
            followed.clear();
            let own = keys.iter().map(|&key| (key, true));
            followed.extend(own.map(|(key, is_own)| Followed { key, after, is_own }));
            for &subscriber in keys {
                let begin = followed.len();
                let mut from = None;
                loop {
                    scratch.keys.clear();
                    let graph = self.graph();
                    graph.subscriptions(subscriber, from, self.slice, &mut scratch.keys);
                    let others = scratch.keys.iter().map(|&key| (key, false));
                    followed.extend(others.map(|(key, is_own)| Followed { key, after, is_own }));
                    from = scratch.keys.last().copied();
                    if scratch.keys.len() < self.slice {
                        break;
                    }
                }
                // Read after the subscriptions: an addition is noted before it is visible.
                scratch.additions.clear();
                let additions = &mut scratch.additions;
                self.graph().additions(subscriber, after, additions);
                raise(&mut followed[begin..], additions);
            }
            if keys.len() > 1 {
                // An id of the session that another one follows is its own. Of two ids that follow
                // a subject, the one that began first counts.
                followed.sort_unstable_by_key(|followed| {
                    (followed.key, !followed.is_own, followed.after)
                });
                followed.dedup_by_key(|followed| followed.key);
            }
            let found = search(followed);
            followed.shrink_to(self.slice);
            scratch.additions.shrink_to(self.slice);
            found
        })
    }
}

/// Raises the positions of subjects, which ascend, to where they were added.
fn raise(subjects: &mut [Followed], additions: &[(Key, u64)]) {
    for &(subject, position) in additions {
        if let Ok(index) = subjects.binary_search_by_key(&subject, |followed| followed.key) {
            subjects[index].after = subjects[index].after.max(position);
        }
    }
}
