//! Whether each client got exactly the events that it was owed.

use std::collections::HashMap;
use std::io::BufRead;

use serde::{Deserialize, Serialize};

use super::recovery::Record;
use crate::published::{EventSet, Published};
use machine::failure::{Context, Failure, Outcome};

/// Events without an answer of one client that are tried in every combination.
const UNANSWERED_MAX: usize = 12;

/// What each client is owed.
#[derive(Debug)]
pub struct Owed {
    /// The number of the first client.
    first: u32,
    sets: Vec<EventSet>,
    /// Hashes of events that a client may have got or not, by its index.
    unanswered: HashMap<u32, Vec<u64>>,
}

/// What became of what was owed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Clients whose every event was checked.
    pub checked: u64,
    /// Of these, clients that got each event once.
    pub exact: u64,
    /// Clients that were told of a reset or a gap, and are owed nothing.
    pub excused: u64,
    /// Events that clients should have got and did not, at least.
    pub missing: u64,
    /// Events that clients got and should not have, or got twice, at least.
    pub excess: u64,
}

impl Judgement {
    /// Whether all clients that were checked got each event once.
    pub fn is_exact(&self) -> bool {
        self.exact == self.checked
    }

    /// The sentence for a report.
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "{} of {} clients got each event once",
            self.exact, self.checked
        );
        if !self.is_exact() {
            text.push_str(&format!(
                "; {} events missing, {} in excess",
                self.missing, self.excess
            ));
        }
        if self.excused > 0 {
            text.push_str(&format!(
                "; {} more were told that events may be missing",
                self.excused
            ));
        }
        text
    }
}

impl Owed {
    /// Clients `first` and up, `count` of them, each logged in as its number, are owed what was
    /// `published` about them and about their `friends`: lines of two ids, or none.
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
        let Some(mut friends) = friends else {
            return Ok(owed);
        };
        let mut line = String::new();
        loop {
            line.clear();
            if friends
                .read_line(&mut line)
                .context("reading the friends")?
                == 0
            {
                return Ok(owed);
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let [one, other] = two_ids(&line)
                .ok_or_else(|| Failure::new(format!("`{}` is not two ids", line.trim())))?;
            owed.follow(one, other, published);
            owed.follow(other, one, published);
        }
    }

    /// Owes the client of `id` the events about `subject`.
    fn follow(&mut self, id: u32, subject: u32, published: &Published) {
        let Some(index) = id.checked_sub(self.first) else {
            return;
        };
        let Some(set) = self.sets.get_mut(index as usize) else {
            return;
        };
        set.extend(published.accepted(subject));
        let unanswered = published.unanswered(subject);
        if !unanswered.is_empty() {
            self.unanswered.entry(index).or_default().extend(unanswered);
        }
    }

    /// Judges the clients from `start` on.
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

    /// Whether a client that was owed one set, and got another, got what it should: each event that
    /// has no answer may have been published or not.
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

fn two_ids(line: &str) -> Option<[u32; 2]> {
    let mut words = line.split_ascii_whitespace();
    let mut id = || words.next()?.parse().ok();
    let ids = [id()?, id()?];
    words.next().is_none().then_some(ids)
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

    /// A client that got the events with these numbers.
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

    /// Event 1 is about client 5, 2 about 6, 3 about 99; 4 is about 6 and has no answer.
    fn published() -> Published {
        let mut published = Published::default();
        published.accept(5, stamp(1));
        published.accept(6, stamp(2));
        published.accept(99, stamp(3));
        published.leave_unanswered(6, stamp(4));
        published
    }

    #[test]
    fn a_loss_a_repeat_and_a_wrong_event_are_each_found() {
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
    fn an_event_without_an_answer_may_have_come_once() {
        let owed = Owed::new(&published(), 5, 2, None).unwrap();
        assert!(judge(&owed, &[got(&[1]), got(&[2, 4])]).is_exact());
        assert!(!judge(&owed, &[got(&[1]), got(&[2, 4, 4])]).is_exact());
        assert!(!judge(&owed, &[got(&[1, 4]), got(&[2])]).is_exact());
    }

    #[test]
    fn friends_are_owed_what_is_about_each_other() {
        let list =
            |text: &'static str| -> Option<Box<dyn BufRead>> { Some(Box::new(text.as_bytes())) };
        let friends = list("# both ways\n5 6\n\n5 99\n");
        let owed = Owed::new(&published(), 5, 2, friends).unwrap();
        assert!(judge(&owed, &[got(&[1, 2, 3]), got(&[2, 1])]).is_exact());
        assert!(!judge(&owed, &[got(&[1, 2, 3]), got(&[2])]).is_exact());
        assert!(Owed::new(&published(), 5, 2, list("5;6\n")).is_err());
    }

    #[test]
    fn a_client_that_was_told_of_a_reset_is_owed_nothing() {
        let owed = Owed::new(&published(), 5, 1, None).unwrap();
        let mut record = got(&[]);
        record.excuse(None);
        let judgement = judge(&owed, &[record]);
        assert_eq!((judgement.checked, judgement.excused), (0, 1));
    }
}
