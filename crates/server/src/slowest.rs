//! Who is owed most: a walk over all backlogs, a slice in each turn.
//!
//! All who ask before a walk begins share it; the others wait for the next. So however often and by however
//! many it is asked, a turn has one slice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use reactor::Driver;

use crate::backlog::Backlogs;
use crate::limits::{BACKLOGS_PER_TURN, INSPECTED_MAX};
use crate::mail::Report;
use crate::worker::Worker;

/// Those who have asked, and the walk for those before them.
#[derive(Default)]
pub(crate) struct Slowest {
    asked: Vec<Question>,
    walk: Option<Walk>,
}

struct Question {
    limit: usize,
    report: Report,
}

/// Lives until it has been at all shelves.
struct Walk {
    questions: Vec<Question>,
    /// The most that one of them wants.
    limit: usize,
    /// The shelf to look at next.
    shelf: usize,
    /// Bytes and slots of the largest so far, the smallest of them on top.
    largest: BinaryHeap<Reverse<(usize, u32)>>,
}

impl Slowest {
    pub(crate) fn ask(&mut self, limit: usize, report: Report) {
        let limit = limit.min(INSPECTED_MAX);
        self.asked.push(Question { limit, report });
    }

    /// Whether there is something to do without waiting for anything.
    pub(crate) const fn is_sought(&self) -> bool {
        self.walk.is_some() || !self.asked.is_empty()
    }

    /// The walk under way, or a new one if somebody has asked.
    fn take_walk(&mut self) -> Option<Walk> {
        self.walk.take().or_else(|| {
            let questions = mem::take(&mut self.asked);
            let limit = questions.iter().map(|question| question.limit).max()?;
            Some(Walk {
                questions,
                limit,
                shelf: 0,
                largest: BinaryHeap::new(),
            })
        })
    }
}

impl Walk {
    /// Looks at a turn's worth of backlogs. Returns whether all have been looked at.
    fn go_on(&mut self, backlogs: &Backlogs) -> bool {
        let mut seen = 0;
        while let Some(shelf) = backlogs.shelf(self.shelf) {
            if seen >= BACKLOGS_PER_TURN {
                return false;
            }
            for (&slot, backlog) in shelf {
                self.largest.push(Reverse((backlog.bytes(), slot)));
                if self.largest.len() > self.limit {
                    self.largest.pop();
                }
            }
            seen += shelf.len();
            self.shelf += 1;
        }
        true
    }
}

impl<D: Driver> Worker<D> {
    /// Goes on with the walk, and reports when it is over.
    pub(crate) fn seek_slowest(&mut self) {
        let Some(mut walk) = self.slowest.take_walk() else {
            return;
        };
        if !walk.go_on(&self.backlogs) {
            self.slowest.walk = Some(walk);
            return;
        }
        // The largest first. Some may have got rid of theirs since they were looked at.
        let mut reports = Vec::new();
        for Reverse((_, slot)) in walk.largest.into_sorted_vec() {
            if self.backlogs.get(slot).is_some()
                && let Some((key, _)) = self.connections.at_mut(slot)
            {
                reports.extend(self.session_report(key));
            }
        }
        for Question { limit, report } in walk.questions {
            report(reports.iter().take(limit).cloned().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use reactor::Tick;

    use super::*;

    fn backlogs(sizes: impl IntoIterator<Item = (u32, usize)>) -> Backlogs {
        let mut backlogs = Backlogs::default();
        for (slot, bytes) in sizes {
            let shared = Rc::from(vec![0; bytes]);
            backlogs.push(slot, Tick::default(), shared, 0..bytes, true, usize::MAX);
        }
        backlogs
    }

    fn walk(limit: usize) -> Walk {
        let mut slowest = Slowest::default();
        slowest.ask(limit, Box::new(|_| {}));
        slowest.take_walk().unwrap()
    }

    #[test]
    fn a_walk_in_slices_finds_what_sorting_all_would() {
        // Sparse and dense shelves; sizes that ascend, descend and repeat.
        let sizes = (0..400_u32).filter(|slot| slot % 7 < 1 + slot / 60);
        let sizes: Vec<_> = sizes
            .map(|slot| (slot, 1 + (slot as usize * 37) % 101))
            .collect();
        let backlogs = backlogs(sizes.iter().copied());
        for limit in [0, 1, 3, 50, 1000] {
            let mut walk = walk(limit);
            while !walk.go_on(&backlogs) {}
            let mut sorted: Vec<_> = sizes.iter().map(|&(slot, size)| (size, slot)).collect();
            sorted.sort_unstable_by_key(|&size| Reverse(size));
            sorted.truncate(limit);
            let found = walk.largest.into_sorted_vec();
            assert_eq!(
                found
                    .into_iter()
                    .map(|Reverse(size)| size)
                    .collect::<Vec<_>>(),
                sorted
            );
        }
    }
}
