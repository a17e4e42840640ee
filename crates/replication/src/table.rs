//! Incarnation table: the live incarnations and the last number of each.
//!
//! Owns the rule that decides which entries count. It is part of the replicated state: all nodes
//! that have read the same entries have the same table.

use std::collections::BTreeMap;

use crate::codec::{self, Source};
use crate::command::Command;
use crate::entry::{Entry, EntryHead};
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::position::StreamSequence;

/// Maximum number of live incarnations: ten times the nodes of the largest cluster that one log can
/// supply. Beyond it a new incarnation does not count until another one has gone.
pub const INCARNATIONS_MAX: usize = 1024;

/// Minimum size of a member, in bytes: incarnation, number, sequence, two lengths.
const MEMBER_BYTES_MIN: usize = 3 * size_of::<u64>() + 2;

/// Live incarnations, and the last number of each. Owned by the reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    members: BTreeMap<Incarnation, Member>,
    /// Sequence of the latest entry that ended an incarnation.
    last_gone: StreamSequence,
}

/// A live incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name of the node.
    pub name: Box<str>,
    /// Version of its program.
    pub version: Box<str>,
    /// Sequence of its first entry.
    pub since: StreamSequence,
    /// Number of its latest entry that counts.
    pub last: u64,
}

/// Reason why an entry does not count. The same for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// An entry with this number counted before.
    Repeat,
    /// An earlier entry of the writer is missing; the writer will resend both.
    OutOfTurn {
        /// Next number of this incarnation.
        expected: u64,
    },
    /// The incarnation has not begun, or has gone.
    UnknownIncarnation,
    /// The first entry of an incarnation is not a single `NodeUp`.
    NoNodeUp,
    /// The writer of a `NodeUp` had not read the latest `NodeGone`, so it may be a late copy from
    /// an incarnation that has gone since.
    StaleNodeUp,
    /// There are already [`INCARNATIONS_MAX`] live incarnations.
    TableFull,
}

impl Table {
    /// Returns the live incarnations, in the order of their numbers.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (Incarnation, &Member)> {
        self.members.iter().map(|(&id, member)| (id, member))
    }

    /// Returns a live incarnation.
    pub fn member(&self, incarnation: Incarnation) -> Option<&Member> {
        self.members.get(&incarnation)
    }

    /// Returns why an entry does not count, judging by its head. `None` for the next number of a
    /// live incarnation, and for number 1 of one that is not live.
    pub(crate) fn skip(&self, head: EntryHead) -> Option<Skip> {
        let Some(member) = self.members.get(&head.incarnation) else {
            return (head.number != 1).then_some(Skip::UnknownIncarnation);
        };
        let expected = member.last + 1;
        if head.number == expected {
            return None;
        }
        Some(match head.number < expected {
            true => Skip::Repeat,
            false => Skip::OutOfTurn { expected },
        })
    }

    /// Applies an entry for which [`skip`](Self::skip) returned `None`. Returns the incarnations
    /// that it ended.
    pub(crate) fn take(
        &mut self,
        sequence: StreamSequence,
        entry: &Entry,
    ) -> Result<Vec<Incarnation>, Skip> {
        match self.members.get_mut(&entry.incarnation) {
            Some(member) => {
                debug_assert_eq!(
                    entry.number,
                    member.last + 1,
                    "the entries of an incarnation count in turn"
                );
                member.last = entry.number;
            }
            None => self.begin(sequence, entry)?,
        }
        let mut ended = Vec::new();
        for command in &entry.commands {
            if let Command::NodeGone { incarnation } = *command
                && self.members.remove(&incarnation).is_some()
            {
                debug_assert!(self.last_gone <= sequence, "sequences ascend");
                self.last_gone = sequence;
                ended.push(incarnation);
            }
        }
        Ok(ended)
    }

    fn begin(&mut self, sequence: StreamSequence, entry: &Entry) -> Result<(), Skip> {
        let [
            Command::NodeUp {
                name,
                version,
                after,
            },
        ] = &entry.commands[..]
        else {
            return Err(Skip::NoNodeUp);
        };
        // The first entry of every incarnation that has gone was made before the entry that ended
        // it. So a copy of it had not read the latest `NodeGone`, and no incarnation counts twice,
        // although the table forgets those that have gone.
        if *after < self.last_gone || *after >= sequence {
            return Err(Skip::StaleNodeUp);
        }
        if self.members.len() >= INCARNATIONS_MAX {
            return Err(Skip::TableFull);
        }
        let member = Member {
            name: name.clone(),
            version: version.clone(),
            since: sequence,
            last: entry.number,
        };
        self.members.insert(entry.incarnation, member);
        Ok(())
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.last_gone.number().to_le_bytes());
        codec::put_count(out, self.members.len());
        for (incarnation, member) in &self.members {
            out.extend_from_slice(&incarnation.number().to_le_bytes());
            out.extend_from_slice(&member.last.to_le_bytes());
            out.extend_from_slice(&member.since.number().to_le_bytes());
            codec::put_name_and_version(out, &member.name, &member.version);
        }
    }

    pub(crate) fn read(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        let last_gone = source.sequence()?;
        let what = "the number of incarnations";
        let members = source.list(what, INCARNATIONS_MAX, MEMBER_BYTES_MIN, |source| {
            Ok((source.incarnation()?, Member::read(source)?))
        })?;
        if !members.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(DecodeError::Invalid("the order of incarnations"));
        }
        let members = members.into_iter().collect();
        Ok(Self { members, last_gone })
    }
}

impl Member {
    fn read(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        let (last, since) = (source.u64()?, source.sequence()?);
        // Each entry that counted has its own sequence.
        if last == 0 || last > StreamSequence::MAX.number() {
            return Err(DecodeError::Invalid("the last number of an incarnation"));
        }
        let (name, version) = source.name_and_version()?;
        Ok(Self {
            name,
            version,
            since,
            last,
        })
    }
}
