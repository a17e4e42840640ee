//! Record of published events, in a few bytes for each subject. It suffices to check that a client
//! received each event about its subjects exactly once, however many subjects it follows.
//!
//! Each event has a unique stamp. A set of events is represented by the sum of the hashes of its
//! stamps: two different sets of the same size have the same sum with a probability of 2^-64. The
//! sums of subjects add up to the sum of a client that follows them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use client::stamp::Stamp;
use machine::failure::{Context, Failure, Outcome};

/// Set of events, represented by its size and the sum of the hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventSet {
    /// Number of events.
    pub count: u64,
    /// Sum of their hashes, modulo 2^64.
    pub sum: u64,
}

impl EventSet {
    /// Adds the event with this stamp.
    #[inline]
    pub fn insert(&mut self, stamp: Stamp) {
        self.insert_hash(hash(stamp));
    }

    /// Adds the event with this hash.
    pub fn insert_hash(&mut self, hash: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash);
    }

    /// Adds the events of another set.
    pub fn extend(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// Hashes a stamp with the finalizer of splitmix64 over both numbers.
fn hash(stamp: Stamp) -> u64 {
    let mut mixed = stamp.due ^ stamp.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 31)
}

/// All published events, by subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    /// Events accepted by the server, indexed by id.
    accepted: Vec<EventSet>,
    /// Hashes of unanswered events, by id. Clients may have received them.
    unanswered: BTreeMap<u32, Vec<u64>>,
}

impl Published {
    /// Records an event about `id` that the server accepted.
    pub fn accept(&mut self, id: u32, stamp: Stamp) {
        self.set_of(id).insert(stamp);
    }

    /// Records an event about `id` that was sent but not answered.
    pub fn leave_unanswered(&mut self, id: u32, stamp: Stamp) {
        self.unanswered.entry(id).or_default().push(hash(stamp));
    }

    /// Returns the accepted events about `id`.
    pub fn accepted(&self, id: u32) -> EventSet {
        self.accepted.get(id as usize).copied().unwrap_or_default()
    }

    /// Returns the hashes of the unanswered events about `id`.
    pub fn unanswered(&self, id: u32) -> &[u64] {
        self.unanswered.get(&id).map_or(&[], Vec::as_slice)
    }

    fn set_of(&mut self, id: u32) -> &mut EventSet {
        let index = id as usize;
        if self.accepted.len() <= index {
            self.accepted.resize(index + 1, EventSet::default());
        }
        &mut self.accepted[index]
    }

    /// Writes a line `id count sum` for each id, and a line `? id hash` for each unanswered event.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Outcome<()> {
        let shown = path.display();
        let write = || {
            let mut out = BufWriter::new(File::create(path)?);
            for (id, set) in self.accepted.iter().enumerate() {
                if set.count > 0 {
                    writeln!(out, "{id} {} {}", set.count, set.sum)?;
                }
            }
            for (id, hashes) in &self.unanswered {
                for hash in hashes {
                    writeln!(out, "? {id} {hash}")?;
                }
            }
            out.flush()
        };
        write().context(format_args!("writing {shown}"))
    }

    /// Reads a file written by [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// When the file cannot be read or has an invalid line.
    pub fn read(path: &Path) -> Outcome<Self> {
        let shown = path.display();
        let file = File::open(path).context(format_args!("opening {shown}"))?;
        let mut published = Self::default();
        for line in BufReader::new(file).lines() {
            let line = line.context(format_args!("reading {shown}"))?;
            published.take_line(&line).ok_or_else(|| {
                Failure::new(format!(
                    "`{line}` in {shown} is not a line as `encke-lab drive --log` writes them"
                ))
            })?;
        }
        Ok(published)
    }

    fn take_line(&mut self, line: &str) -> Option<()> {
        let (unanswered, numbers) = match line.strip_prefix("? ") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let mut words = numbers.split(' ');
        let id = words.next()?.parse().ok()?;
        if unanswered {
            let hash = words.next()?.parse().ok()?;
            self.unanswered.entry(id).or_default().push(hash);
        } else {
            *self.set_of(id) = EventSet {
                count: words.next()?.parse().ok()?,
                sum: words.next()?.parse().ok()?,
            };
        }
        words.next().is_none().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn stamp(due: u64, number: u64) -> Stamp {
        Stamp { due, number }
    }

    #[test]
    fn a_set_of_events_does_not_depend_on_their_order_and_each_counts_once() {
        let set = |stamps: &[Stamp]| {
            let mut set = EventSet::default();
            stamps.iter().for_each(|&stamp| set.insert(stamp));
            set
        };
        let (a, b, c) = (stamp(100, 1), stamp(200, 2), stamp(300, 1));
        assert_eq!(set(&[a, b, c]), set(&[c, a, b]));
        // If one event is lost and another comes twice, the count stays the same but the sum
        // changes.
        assert_ne!(set(&[a, b, c]), set(&[a, b, b]));
        assert_ne!(set(&[stamp(100, 2)]), set(&[stamp(101, 1)]));
        assert_ne!(set(&[stamp(100, 2)]), set(&[stamp(100, 3)]));
        let mut joined = set(&[a]);
        joined.extend(set(&[b, c]));
        assert_eq!(joined, set(&[a, b, c]));
    }

    #[test]
    fn a_log_reads_back_as_written() {
        let mut published = Published::default();
        published.accept(7, stamp(1, 1));
        published.accept(7, stamp(2, 2));
        published.accept(9, stamp(3, 1));
        published.leave_unanswered(9, stamp(4, 2));
        let path = std::env::temp_dir().join(format!("encke-published-{}", std::process::id()));
        published.write(&path).unwrap();
        assert_eq!(Published::read(&path).unwrap(), published);
        assert_eq!(published.accepted(7).count, 2);
        assert_eq!(published.accepted(1000), EventSet::default());
        assert_eq!(published.unanswered(9).len(), 1);
        fs::write(&path, "7 2\n").unwrap();
        let error = Published::read(&path).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(error.contains("`7 2`"), "{error}");
    }
}
