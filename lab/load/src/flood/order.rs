//! Check that a stream delivers every event once and in order, in 80 bytes for each client.
//!
//! What each kind of number can prove:
//!
//! - A publisher's numbers (`"n"` of its stamp) are consecutive for each subject, so a missing one
//!   is a lost event, provided that the client follows one subject only. A number that comes again
//!   with a later time is a new run of the publisher, not a duplicate.
//! - Ids ascend within an epoch on every server that promises order. Encke numbers all its events
//!   in one sequence, of which a stream carries a part, so a gap proves nothing. A descending id
//!   proves that two events were swapped, provided that they are about one subject.
//! - If the server numbers the events of each stream separately, [`IdRule::Consecutive`] counts a
//!   gap as a loss.
//!
//! Losses before a stream's first event or after its last cannot be detected here.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use client::decode::event_id::EventId;
use client::stamp::Stamp;

/// Bytes for the check of one client.
const ORDER_BYTES_MAX: usize = 80;

const _: () = assert!(size_of::<Order>() <= ORDER_BYTES_MAX);

/// How many of the highest numbers are tracked.
const WINDOW: u64 = 64;

/// How many of the last ids are remembered when ids have gaps. An older one that comes again counts
/// as out of order.
const TRAIL: usize = 5;

/// Guarantee that event ids give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum IdRule {
    /// Later events of a stream have higher ids.
    #[default]
    Ascending,
    /// Each event of a stream has the id after that of the one before.
    Consecutive,
    /// No guarantee.
    Opaque,
}

/// Which checks apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Guarantee that event ids give.
    pub ids: IdRule,
    /// Whether each client follows one subject only, so that the numbers of the stamps are
    /// consecutive.
    pub numbers: bool,
}

impl Default for Check {
    fn default() -> Self {
        Self {
            ids: IdRule::default(),
            numbers: true,
        }
    }
}

impl Check {
    /// No checks: for clients that follow several subjects.
    pub const NOTHING: Self = Self {
        ids: IdRule::Opaque,
        numbers: false,
    };
}

/// Results of one kind of check over many clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// Events that carried a number.
    pub checked: u64,
    /// Numbers skipped, including those that came late.
    pub skipped: u64,
    /// Events that came after a later one.
    pub reordered: u64,
    /// Those of them that had been skipped before.
    pub filled: u64,
    /// Events that came again.
    pub duplicates: u64,
    /// Events more than 64 places late: reordered or duplicates, which is not known.
    pub stale: u64,
    /// Times that a publisher or a server restarted its numbers.
    pub restarts: u64,
}

impl Sequence {
    /// Returns how many numbers never came.
    pub fn missing(&self) -> u64 {
        self.skipped - self.filled
    }

    /// Whether no event came twice or out of order.
    pub fn is_in_order(&self) -> bool {
        self.reordered == 0 && self.duplicates == 0 && self.stale == 0
    }

    /// Adds the counts of other clients.
    pub fn add(&mut self, other: &Self) {
        self.checked += other.checked;
        self.skipped += other.skipped;
        self.reordered += other.reordered;
        self.filled += other.filled;
        self.duplicates += other.duplicates;
        self.stale += other.stale;
        self.restarts += other.restarts;
    }
}

/// State of the checks of one stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Order {
    numbers: NumberOrder,
    epoch: u32,
    ids: Ids,
}

/// State of the check of a publisher's numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NumberOrder {
    numbers: Window,
    /// Due time of the event with the highest number.
    due: u64,
}

#[derive(Debug, Clone, Copy)]
enum Ids {
    Trail(Trail),
    Window(Window),
}

impl Default for Ids {
    fn default() -> Self {
        Self::Trail(Trail::default())
    }
}

impl Order {
    /// Checks the number of a stamp.
    #[inline]
    pub(super) fn number(&mut self, stamp: Stamp, counts: &mut Sequence) {
        self.numbers.take(stamp, counts);
    }

    /// Checks an event id.
    #[inline]
    pub(super) fn id(&mut self, rule: IdRule, id: EventId, counts: &mut Sequence) {
        if rule == IdRule::Opaque {
            return;
        }
        counts.checked += 1;
        if id.epoch != self.epoch {
            // The first id of a stream is not a restart.
            counts.restarts += u64::from(self.epoch != 0);
            self.epoch = id.epoch;
            self.ids = match rule {
                IdRule::Consecutive => Ids::Window(Window::default()),
                _ => Ids::Trail(Trail::default()),
            };
        }
        match &mut self.ids {
            Ids::Trail(trail) => trail.take(id.position, counts),
            Ids::Window(window) => {
                window.take(id.position, counts);
            }
        }
    }
}

impl NumberOrder {
    /// Checks the number of a stamp.
    #[inline]
    pub(super) fn take(&mut self, stamp: Stamp, counts: &mut Sequence) {
        counts.checked += 1;
        // Within one run, due times ascend with the numbers.
        if stamp.number <= self.numbers.highest && stamp.due > self.due {
            self.numbers = Window::default();
            counts.restarts += 1;
        }
        if self.numbers.take(stamp.number, counts) {
            self.due = stamp.due;
        }
    }
}

/// Which of the last [`WINDOW`] numbers have come.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    highest: u64,
    /// Bit `i` is set if `highest - i` has come. 0 before the first number.
    seen: u64,
    /// Distance from the highest down to the first number, at most [`WINDOW`].
    depth: u8,
}

impl Window {
    /// Checks a number; returns whether it is the new highest.
    #[inline]
    fn take(&mut self, number: u64, counts: &mut Sequence) -> bool {
        if self.seen == 0 {
            (self.highest, self.seen) = (number, 1);
            return true;
        }
        if number > self.highest {
            let step = number - self.highest;
            self.highest = number;
            self.seen = self.seen.checked_shl(shift(step)).unwrap_or(0) | 1;
            self.depth = (u64::from(self.depth) + step.min(WINDOW)).min(WINDOW) as u8;
            counts.skipped += step - 1;
            return true;
        }
        let back = self.highest - number;
        if back >= WINDOW {
            counts.stale += 1;
        } else if self.seen & (1 << back) != 0 {
            counts.duplicates += 1;
        } else {
            self.seen |= 1 << back;
            counts.reordered += 1;
            // A number before the first was never counted as skipped.
            counts.filled += u64::from(back <= u64::from(self.depth));
        }
        false
    }
}

fn shift(step: u64) -> u32 {
    u32::try_from(step).unwrap_or(u32::MAX)
}

/// The last few of ascending numbers with gaps.
#[derive(Debug, Clone, Copy, Default)]
struct Trail {
    highest: u64,
    /// Lower 32 bits of the last numbers.
    recent: [u32; TRAIL],
    next: u8,
    /// How many entries of `recent` are used.
    taken: u8,
}

impl Trail {
    #[inline]
    fn take(&mut self, number: u64, counts: &mut Sequence) {
        if self.taken > 0 && number <= self.highest {
            if self.recent[..usize::from(self.taken)].contains(&(number as u32)) {
                counts.duplicates += 1;
                return;
            }
            counts.reordered += 1;
        }
        self.highest = self.highest.max(number);
        self.recent[usize::from(self.next)] = number as u32;
        self.next = (self.next + 1) % TRAIL as u8;
        self.taken = (self.taken + 1).min(TRAIL as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(stamps: impl IntoIterator<Item = (u64, u64)>) -> Sequence {
        let (mut order, mut counts) = (Order::default(), Sequence::default());
        for (due, number) in stamps {
            order.number(Stamp { due, number }, &mut counts);
        }
        counts
    }

    /// Result of one run whose numbers arrive in the order of `all`.
    fn of_one_run(all: &[u64]) -> Sequence {
        numbers(all.iter().map(|&number| (number, number)))
    }

    fn ids(rule: IdRule, all: &[(u32, u64)]) -> Sequence {
        let (mut order, mut counts) = (Order::default(), Sequence::default());
        for &(epoch, position) in all {
            let complete = position;
            let id = EventId {
                epoch,
                position,
                complete,
            };
            order.id(rule, id, &mut counts);
        }
        counts
    }

    #[test]
    fn events_once_and_in_order_pass() {
        let counts = of_one_run(&[5, 6, 7, 8]);
        assert_eq!(
            counts,
            Sequence {
                checked: 4,
                ..Sequence::default()
            }
        );
    }

    #[test]
    fn losses_duplicates_and_swaps_are_distinguished() {
        let lost = of_one_run(&[1, 2, 5, 6]);
        assert_eq!((lost.missing(), lost.is_in_order()), (2, true));
        let swapped = of_one_run(&[1, 3, 2, 4]);
        assert_eq!((swapped.missing(), swapped.reordered), (0, 1));
        let doubled = of_one_run(&[1, 2, 2, 3, 1]);
        assert_eq!((doubled.missing(), doubled.duplicates), (0, 2));
        let before_the_first = of_one_run(&[5, 4, 4, 6]);
        assert_eq!(before_the_first.missing(), 0);
        assert_eq!(
            (before_the_first.reordered, before_the_first.duplicates),
            (1, 1)
        );
    }

    #[test]
    fn a_number_far_behind_is_stale_and_a_jump_is_a_loss() {
        let counts = of_one_run(&[1, 2, 1_000_000, 999_000, 999_937]);
        assert_eq!((counts.stale, counts.reordered, counts.filled), (1, 1, 1));
        assert_eq!(counts.missing(), 999_996);
    }

    #[test]
    fn a_restarted_publisher_makes_no_duplicates() {
        let counts = numbers([(10, 1), (20, 2), (30, 1), (40, 2), (40, 2), (50, 3)]);
        assert_eq!((counts.restarts, counts.duplicates), (1, 1));
        assert_eq!(counts.missing(), 0);
    }

    #[test]
    fn ids_with_gaps_must_ascend() {
        let well = ids(
            IdRule::Ascending,
            &[(1, 3), (1, 90), (1, 91), (2, 1), (2, 5)],
        );
        assert!(well.is_in_order() && well.missing() == 0);
        assert_eq!(well.restarts, 1);
        let swapped = ids(IdRule::Ascending, &[(1, 3), (1, 90), (1, 70), (1, 95)]);
        assert_eq!((swapped.reordered, swapped.duplicates), (1, 0));
        let doubled = ids(IdRule::Ascending, &[(1, 3), (1, 90), (1, 90), (1, 3)]);
        assert_eq!((doubled.reordered, doubled.duplicates), (0, 2));
        assert_eq!(ids(IdRule::Opaque, &[(1, 3), (1, 1)]), Sequence::default());
    }

    #[test]
    fn gaps_between_consecutive_ids_are_losses() {
        let counts = ids(
            IdRule::Consecutive,
            &[(1, 0), (1, 1), (1, 4), (1, 3), (1, 3)],
        );
        assert_eq!(
            (counts.missing(), counts.reordered, counts.duplicates),
            (1, 1, 1)
        );
    }

    proptest! {
        /// Compared with a simple model: the set of all numbers that came.
        #[test]
        fn within_the_window_nothing_is_miscounted(
            steps in proptest::collection::vec(-20i64..24, 1..200)
        ) {
            let (mut last, mut all) = (100i64, vec![100u64]);
            for step in steps {
                last = (last + step).max(1);
                all.push(last as u64);
            }
            let counts = of_one_run(&all);
            prop_assume!(counts.stale == 0);
            let came: std::collections::BTreeSet<u64> = all.iter().copied().collect();
            prop_assert_eq!(counts.duplicates as usize, all.len() - came.len());
            let (first, highest) = (all[0], *came.last().unwrap());
            let within = came.range(first..).count() as u64;
            prop_assert_eq!(counts.missing(), highest - first + 1 - within);
        }
    }
}
