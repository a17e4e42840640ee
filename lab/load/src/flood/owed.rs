//! Check of exact delivery: whether each client received exactly the events published for it.

use std::collections::HashMap;
use std::io::BufRead;

use serde::{Deserialize, Serialize};

use super::recovery::Record;
use crate::friends;
use crate::published::{EventSet, Published};
use machine::failure::Outcome;

/// Most unanswered events of one client that are tried in every combination.
const UNANSWERED_MAX: usize = 12;

/// Events expected at each client.
#[derive(Debug)]
pub struct Owed {
    /// Number of the first client.
    first: u32,
    sets: Vec<EventSet>,
    /// Hashes of the events that a client may or may not have received, by its index.
    unanswered: HashMap<u32, Vec<u64>>,
}

/// Result of the check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Clients whose events were checked.
    pub checked: u64,
    /// Those of them that received each event exactly once.
    pub exact: u64,
    /// Clients not checked, as the server announced a reset or a gap to them.
    pub excused: u64,
    /// Lower bound of the events that clients missed.
    pub missing: u64,
    /// Lower bound of the events that clients received twice or should not have received.
    pub excess: u64,
}

impl Judgement {
    /// Whether all checked clients received each event exactly once.
    pub fn is_exact(&self) -> bool {
        self.exact == self.checked
    }

    /// Formats the result as a sentence.
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "{} of {} clients got each event once",
            self.exact, self.checked
        );
        if !self.is_exact() {
            let (missing, excess) = (self.missing, self.excess);
            text += &format!("; {missing} events missing, {excess} in excess");
        }
        if self.excused > 0 {
            let excused = self.excused;
            text += &format!("; {excused} more were told that events may be missing");
        }
        text
    }
}

impl Owed {
    /// Computes what `count` clients with numbers from `first` expect: the events `published` about
    /// themselves and about their friends. `friends` is an edge list with two ids a line.
    ///
    /// # Errors
    ///
    /// When `friends` cannot be read, or a line of it is not two ids.
    pub fn new(
        published: &Published,
        first: u32,
        count: u32,
        friends: Option<Box<dyn BufRead>>,
    ) -> Outcome<Self> {
        let mut owed = Self {
            first,
            sets: vec![EventSet::default(); count as usize],
            unanswered: HashMap::new(),
        };
        for id in first..first + count {
            owed.follow(id, id, published);
        }
        if let Some(list) = friends {
            friends::read(list, "the friends", |[one, other]| {
                owed.follow(one, other, published);
                owed.follow(other, one, published);
            })?;
        }
        Ok(owed)
    }

    /// Adds the events about `subject` to what client `id` expects.
    fn follow(&mut self, id: u32, subject: u32, published: &Published) {
        let index = id.wrapping_sub(self.first);
        let Some(set) = self.sets.get_mut(index as usize) else {
            return;
        };
        set.extend(published.accepted(subject));
        let unanswered = published.unanswered(subject);
        if !unanswered.is_empty() {
            self.unanswered.entry(index).or_default().extend(unanswered);
        }
    }

    /// Adds the result for the clients with index `start` and up.
    pub(super) fn judge(&self, start: usize, records: &[Record], into: &mut Judgement) {
        for (index, record) in (start..).zip(records) {
            let Some(owed) = self.sets.get(index) else {
                return;
            };
            if record.is_excused {
                into.excused += 1;
                continue;
            }
            into.checked += 1;
            if self.explains(index as u32, *owed, record.events) {
                into.exact += 1;
            } else {
                let (owed, got) = (owed.count, record.events.count);
                into.missing += owed.saturating_sub(got).max(u64::from(owed == got));
                into.excess += got.saturating_sub(owed).max(u64::from(owed == got));
            }
        }
    }

    /// Whether `got` equals `owed` plus any subset of the client's unanswered events, each of which
    /// may have been published or not.
    fn explains(&self, index: u32, owed: EventSet, got: EventSet) -> bool {
        if owed == got {
            return true;
        }
        let Some(unanswered) = self.unanswered.get(&index) else {
            return false;
        };
        let tried = &unanswered[..unanswered.len().min(UNANSWERED_MAX)];
        (0u32..1 << tried.len()).any(|chosen| {
            let mut set = owed;
            for (bit, &hash) in tried.iter().enumerate() {
                if chosen & (1 << bit) != 0 {
                    set.insert_hash(hash);
                }
            }
            set == got
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::stamp::Stamp;

    fn stamp(number: u64) -> Stamp {
        Stamp {
            due: 1_000 * number,
            number,
        }
    }

    /// Record of a client that received the events with these numbers.
    fn got(numbers: &[u64]) -> Record {
        let mut record = Record::default();
        numbers
            .iter()
            .for_each(|&number| record.events.insert(stamp(number)));
        record
    }

    fn judge(owed: &Owed, records: &[Record]) -> Judgement {
        let mut judgement = Judgement::default();
        owed.judge(0, records, &mut judgement);
        judgement
    }

    /// Event 1 is about client 5, 2 about 6, 3 about 99; 4 is about 6 and unanswered.
    fn published() -> Published {
        let mut published = Published::default();
        published.accept(5, stamp(1));
        published.accept(6, stamp(2));
        published.accept(99, stamp(3));
        published.leave_unanswered(6, stamp(4));
        published
    }

    #[test]
    fn losses_repeats_and_wrong_events_are_found() {
        let owed = Owed::new(&published(), 5, 2, None).unwrap();
        assert!(judge(&owed, &[got(&[1]), got(&[2])]).is_exact());
        let lost = judge(&owed, &[got(&[]), got(&[2])]);
        assert_eq!((lost.exact, lost.missing, lost.excess), (1, 1, 0));
        let twice = judge(&owed, &[got(&[1, 1]), got(&[2])]);
        assert_eq!((twice.exact, twice.missing, twice.excess), (1, 0, 1));
        let wrong = judge(&owed, &[got(&[3]), got(&[2])]);
        assert_eq!((wrong.exact, wrong.missing, wrong.excess), (1, 1, 1));
    }

    #[test]
    fn an_unanswered_event_may_arrive_at_most_once() {
        let owed = Owed::new(&published(), 5, 2, None).unwrap();
        assert!(judge(&owed, &[got(&[1]), got(&[2, 4])]).is_exact());
        assert!(!judge(&owed, &[got(&[1]), got(&[2, 4, 4])]).is_exact());
        assert!(!judge(&owed, &[got(&[1, 4]), got(&[2])]).is_exact());
    }

    #[test]
    fn friends_expect_the_events_about_each_other() {
        let list =
            |text: &'static str| -> Option<Box<dyn BufRead>> { Some(Box::new(text.as_bytes())) };
        let friends = list("# both ways\n5 6\n\n5 99\n");
        let owed = Owed::new(&published(), 5, 2, friends).unwrap();
        assert!(judge(&owed, &[got(&[1, 2, 3]), got(&[2, 1])]).is_exact());
        assert!(!judge(&owed, &[got(&[1, 2, 3]), got(&[2])]).is_exact());
        assert!(Owed::new(&published(), 5, 2, list("5;6\n")).is_err());
    }

    #[test]
    fn a_client_with_a_reset_is_not_checked() {
        let owed = Owed::new(&published(), 5, 1, None).unwrap();
        let mut record = got(&[]);
        record.excuse(None);
        let judgement = judge(&owed, &[record]);
        assert_eq!((judgement.checked, judgement.excused), (0, 1));
    }
}
