//! Export of a graph as an edge list, sorted so that two exports can be compared line by line.
//!
//! Integers come before text and ascend as numbers; text ascends by its bytes. So the list depends
//! only on the edges, not on the keys of the ids.

use std::borrow::Cow;
use std::io::{self, Write};

use super::block::{Pair, other, owner};
use super::snapshot::{Snapshot, failed};
use crate::adjacency::Direction;
use crate::error::GraphError;
use crate::id::Id;
use crate::key::{INTERNED_FROM, Key};

/// Format of an edge list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// One `subscriber subject` a line. Ids must be words.
    Words,
    /// One `{"subscriber":…,"subject":…}` a line, for any ids.
    Json,
}

/// Reason why an edge list is incomplete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The graph cannot be read.
    #[error("{0}")]
    Graph(GraphError),
    /// The list cannot be written.
    #[error("the edge list cannot be written: {0}")]
    Write(io::Error),
    /// An id has a space or begins like a comment, so a list of words cannot express it. Nothing
    /// was written.
    #[error(
        "the id {:?} contains a space or begins with #, so it cannot be written as a word of a \
         list; export as JSON",
        .0.to_string()
    )]
    NotAWord(Id),
}

impl Snapshot {
    /// Writes all edges to `out`, sorted, and returns their number. Calls `progress` now and then
    /// with the number written so far. Takes eight bytes of memory for each edge of an interned
    /// subscriber.
    ///
    /// # Errors
    ///
    /// [`ExportError`].
    pub fn export(
        &self,
        format: ListFormat,
        out: &mut impl Write,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, ExportError> {
        let names = Names::new(self.names().map_err(ExportError::Graph)?);
        if format == ListFormat::Words {
            names.all_are_words()?;
        }
        let mut list = List {
            names: &names,
            format,
            out,
            written: 0,
            line: Vec::new(),
        };
        // Subscribers that are their own key come in order; interned ones are sorted by rank first.
        let mut later = Vec::new();
        let mut group = Vec::new();
        let mut pairs = (self.pairs(Direction::Subscriptions)).map_err(ExportError::Graph)?;
        loop {
            let next = pairs
                .next_pair()
                .map_err(|error| ExportError::Graph(failed(error)))?;
            let another =
                |edge| (group.first()).is_some_and(|&(subscriber, _)| subscriber != owner(edge));
            if next.is_none_or(another) {
                group.sort_unstable();
                list.write(&group).map_err(ExportError::Write)?;
                group.clear();
                progress(list.written);
            }
            match next {
                None => break,
                Some(edge) if Key::from_number(owner(edge)).is_own() => {
                    group.push((owner(edge), names.rank(other(edge))));
                }
                Some(edge) => later.push(names.ranked(edge)),
            }
        }
        later.sort_unstable();
        list.write(&later).map_err(ExportError::Write)?;
        progress(list.written);
        list.out.flush().map_err(ExportError::Write)?;
        Ok(list.written)
    }
}

/// Interned ids in the order of the list. The rank of an interned id is 2^31 plus its index; other
/// ids have their own key as rank.
struct Names {
    /// Number and rank of each key, ascending by number.
    ranks: Vec<(u32, u32)>,
    /// Ids by rank.
    ids: Vec<Id>,
}

impl Names {
    fn new(mut names: Vec<(Key, Id)>) -> Self {
        names.sort_unstable_by(|(_, one), (_, two)| one.cmp(two));
        let mut ranks: Vec<(u32, u32)> = names
            .iter()
            .zip(INTERNED_FROM..)
            .map(|((key, _), rank)| (key.number(), rank))
            .collect();
        ranks.sort_unstable();
        Self {
            ranks,
            ids: names.into_iter().map(|(_, id)| id).collect(),
        }
    }

    fn all_are_words(&self) -> Result<(), ExportError> {
        let is_word = |id: &&Id| match id {
            Id::Integer(_) => true,
            // Of the characters that end a word, an id can only have the space.
            Id::Text(text) => !text.starts_with('#') && !text.contains(' '),
        };
        match self.ids.iter().find(|id| !is_word(id)) {
            None => Ok(()),
            Some(id) => Err(ExportError::NotAWord(id.clone())),
        }
    }

    fn rank(&self, number: u32) -> u32 {
        match self.ranks.binary_search_by_key(&number, |&(key, _)| key) {
            Ok(at) => self.ranks[at].1,
            // Its own key, or one whose name is missing, which a check reports.
            Err(_) => number,
        }
    }

    fn ranked(&self, edge: Pair) -> (u32, u32) {
        (self.rank(owner(edge)), self.rank(other(edge)))
    }

    fn id(&self, rank: u32) -> Cow<'_, Id> {
        let place = rank.checked_sub(INTERNED_FROM);
        let id = place.and_then(|place| self.ids.get(place as usize));
        id.map_or_else(|| Cow::Owned(Id::from(rank)), Cow::Borrowed)
    }
}

/// Writer of a list.
struct List<'a, W> {
    names: &'a Names,
    format: ListFormat,
    out: &'a mut W,
    written: u64,
    line: Vec<u8>,
}

impl<W: Write> List<'_, W> {
    fn write(&mut self, ranked: &[(u32, u32)]) -> io::Result<()> {
        for &(subscriber, subject) in ranked {
            let (subscriber, subject) = (self.names.id(subscriber), self.names.id(subject));
            self.line.clear();
            match self.format {
                ListFormat::Words => writeln!(self.line, "{subscriber} {subject}")?,
                ListFormat::Json => {
                    let (subscriber, subject) = (json(&subscriber)?, json(&subject)?);
                    writeln!(
                        self.line,
                        "{{\"subscriber\":{subscriber},\"subject\":{subject}}}"
                    )?;
                }
            }
            self.out.write_all(&self.line)?;
            self.written += 1;
        }
        Ok(())
    }
}

fn json(id: &Id) -> io::Result<String> {
    serde_json::to_string(id).map_err(io::Error::from)
}

#[cfg(test)]
mod tests;
