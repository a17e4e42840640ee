//! The slowest readers: a walk over all backlogs, a slice in each turn.
//!
//! All requests made before a walk begins share it; later ones wait for the next. So a turn has one
//! slice, however many requests there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use crate::limits::{INSPECTED_MAX, Limits};
use crate::mail::{Report, SessionReport};
use crate::stage::Stage;
use crate::table::Backlogs;

/// Open requests, and the walk that answers earlier ones.
#[derive(Default)]
pub(crate) struct SlowestSearch {
    asked: Vec<Question>,
    walk: Option<Walk>,
}

/// Result of a walk.
pub(crate) struct Slowest {
    /// Slots whose backlogs were the largest when they were visited, the largest first.
    pub(crate) slots: Vec<u32>,
    questions: Vec<Question>,
}

impl Slowest {
    /// Answers all requests with reports on the slots.
    pub(crate) fn answer(self, reports: &[SessionReport]) {
        for Question { limit, report } in self.questions {
            report(reports.iter().take(limit).cloned().collect());
        }
    }
}

struct Question {
    limit: usize,
    report: Report,
}

/// Walk over all shelves.
struct Walk {
    questions: Vec<Question>,
    /// The largest limit among them.
    limit: usize,
    /// The next shelf.
    shelf: usize,
    /// Bytes and slots of the largest so far, the smallest of them on top.
    largest: BinaryHeap<Reverse<(usize, u32)>>,
}

impl Stage for SlowestSearch {
    fn has_work(&self) -> bool {
        self.walk.is_some() || !self.asked.is_empty()
    }
}

impl SlowestSearch {
    pub(crate) fn ask(&mut self, limit: usize, report: Report) {
        let limit = limit.min(INSPECTED_MAX);
        self.asked.push(Question { limit, report });
    }

    /// Continues the walk. Returns the result at its end.
    pub(crate) fn advance(&mut self, backlogs: &Backlogs, limits: &Limits) -> Option<Slowest> {
        let mut walk = self.take_walk()?;
        if !walk.advance(backlogs, limits) {
            self.walk = Some(walk);
            return None;
        }
        let largest = walk.largest.into_sorted_vec();
        Some(Slowest {
            slots: largest.into_iter().map(|Reverse((_, slot))| slot).collect(),
            questions: walk.questions,
        })
    }

    /// Takes the current walk, or a new one if there are requests.
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
    /// Visits a turn's worth of backlogs. Returns whether all have been visited.
    fn advance(&mut self, backlogs: &Backlogs, limits: &Limits) -> bool {
        let mut seen = 0;
        while let Some(shelf) = backlogs.shelf(self.shelf) {
            if seen >= limits.backlogs_per_turn {
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

#[cfg(test)]
mod tests {
    use reactor::Tick;

    use super::*;
    use crate::slow_policy::SlowPolicy;
    use crate::table::Piece;

    fn backlogs(sizes: impl IntoIterator<Item = (u32, usize)>) -> Backlogs {
        let mut backlogs = Backlogs::new(&Limits::SMALL);
        for (slot, bytes) in sizes {
            let piece = Piece::of(backlogs.memory().share(&vec![0; bytes]));
            let policy = SlowPolicy::Close;
            backlogs.push(slot, Tick::default(), piece, policy, usize::MAX);
        }
        backlogs
    }

    fn walk(limit: usize) -> Walk {
        let mut slowest = SlowestSearch::default();
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
            while !walk.advance(&backlogs, &Limits::SMALL) {}
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
