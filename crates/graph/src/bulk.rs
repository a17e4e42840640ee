//! Bulk load of an edge list into a data directory that no server uses.
//!
//! The list is read, sorted in both directions and written, together with the existing graph, to a
//! new file, which then replaces the old one: a load that is interrupted at any moment does not
//! change the graph. Must never report an edge as loaded before that.

mod edges;
mod lines;

use std::io::{self, Read};

use crate::adjacency::Direction;
use crate::dictionary::Dictionary;
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;
use crate::rows::Rows;
use crate::store::{Contents, Directory, OpenError, Pair, Snapshot};
use edges::Edges;
pub use lines::{Line, Lines, parse_edge};

/// Most invalid lines that are listed when they are skipped. All are counted.
const BAD_LINES_MAX: usize = 100;

/// Lines between two progress reports: some milliseconds.
const LINES_PER_REPORT: u64 = 1 << 16;

/// Options of a load.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// Whether each line is a friendship, so that both ids subscribe to each other.
    pub mutual: bool,
    /// Whether invalid lines are counted and skipped instead of ending the load.
    pub skip_bad: bool,
}

/// Progress of a load, reported to the caller from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadProgress {
    /// The list is being read.
    Reading {
        /// Bytes read.
        bytes: u64,
        /// Edges found so far, including duplicates.
        edges: u64,
    },
    /// The edges are being sorted, once for each direction.
    Sorting,
    /// The file is being written.
    Writing {
        /// Edges written, counted once for each direction.
        written: u64,
        /// Estimate of the final number.
        of: u64,
    },
}

/// Result of a load. All of it is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Lines read, including comments and blank lines.
    pub lines: u64,
    /// New edges.
    pub added: u64,
    /// Edges in the graph after the load.
    pub edges: u64,
    /// Invalid lines that were skipped.
    pub bad: u64,
    /// The first of them: line number and reason.
    pub bad_lines: Vec<(u64, String)>,
}

/// Reason why nothing was loaded. The graph is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The list cannot be read.
    #[error("the edge list cannot be read: {0}; nothing was loaded")]
    Input(#[source] io::Error),
    /// A line is not an edge.
    #[error(
        "line {number}: {why}; nothing was loaded; correct the line, or skip invalid lines with \
         --skip-bad"
    )]
    Line {
        /// Line number, from 1.
        number: u64,
        /// The reason.
        why: String,
    },
    /// The dictionary is full.
    #[error("nothing was loaded: {0}")]
    Dictionary(#[source] GraphError),
    /// The existing graph cannot be read, or the new one cannot be written.
    #[error("{0}")]
    Directory(#[source] OpenError),
}

/// Adds the edges of `input`, one subscriber and subject a line, to the graph in `directory`. Blank
/// lines and lines that begin with `#` are skipped; existing edges, and those from an id to itself,
/// have no effect.
///
/// # Errors
///
/// When the list cannot be read, the directory cannot be read or written, or a line is invalid.
/// Nothing is changed then.
pub fn load(
    directory: &Directory,
    input: impl Read,
    options: LoadOptions,
    mut progress: impl FnMut(LoadProgress),
) -> Result<Loaded, LoadError> {
    let old = match directory.has_graph().map_err(LoadError::Directory)? {
        true => Some(directory.snapshot().map_err(LoadError::Directory)?),
        false => None,
    };
    let mut reading = Reading::begin(old.as_ref())?;
    reading.read(input, options, &mut progress)?;
    let mut merged = Merged {
        old: old.as_ref(),
        names: reading.names,
        of: 2 * reading.edges.len() as u64,
        edges: reading.edges,
        written: 0,
        kept: 0,
        progress,
    };
    directory
        .replace(&mut merged)
        .map_err(LoadError::Directory)?;
    let edges = merged.written / 2;
    Ok(Loaded {
        added: edges - merged.kept,
        edges,
        ..reading.loaded
    })
}

/// State of reading the list and converting ids to keys.
struct Reading {
    dictionary: Dictionary,
    names: Vec<(Key, Id)>,
    edges: Edges,
    loaded: Loaded,
}

impl Reading {
    /// Starts with the ids of the old graph, which keep their keys.
    fn begin(old: Option<&Snapshot>) -> Result<Self, LoadError> {
        let dictionary = Dictionary::new();
        let names = old.map_or(Ok(Vec::new()), Snapshot::names);
        let names = names.map_err(LoadError::Dictionary)?;
        for (key, id) in &names {
            let restored = dictionary.restore(*key, id, 1);
            restored.map_err(|why| LoadError::Line {
                number: 0,
                why: format!("the name {id} in the graph {why}"),
            })?;
        }
        Ok(Self {
            dictionary,
            names,
            edges: Edges::default(),
            loaded: Loaded::default(),
        })
    }

    fn read(
        &mut self,
        input: impl Read,
        options: LoadOptions,
        progress: &mut impl FnMut(LoadProgress),
    ) -> Result<(), LoadError> {
        let mut lines = Lines::new(input);
        while let Some(line) = lines.next().map_err(LoadError::Input)? {
            match line {
                Line::Nothing => {}
                Line::Keys(subscriber, subject) => {
                    self.add(
                        Key::from_number(subscriber),
                        Key::from_number(subject),
                        options,
                    );
                }
                Line::Ids(subscriber, subject) => {
                    if subscriber != subject {
                        let (from, to) = (self.key(subscriber)?, self.key(subject)?);
                        self.add(from, to, options);
                    }
                }
                Line::Bad(why) if options.skip_bad => {
                    self.loaded.bad += 1;
                    if self.loaded.bad_lines.len() < BAD_LINES_MAX {
                        self.loaded.bad_lines.push((lines.number(), why));
                    }
                }
                Line::Bad(why) => {
                    let number = lines.number();
                    return Err(LoadError::Line { number, why });
                }
            }
            if lines.number().is_multiple_of(LINES_PER_REPORT) {
                let (bytes, edges) = (lines.bytes(), self.edges.len() as u64);
                progress(LoadProgress::Reading { bytes, edges });
            }
        }
        self.loaded.lines = lines.number();
        Ok(())
    }

    fn add(&mut self, subscriber: Key, subject: Key, options: LoadOptions) {
        if subscriber != subject {
            self.edges.push(subscriber, subject);
            if options.mutual {
                self.edges.push(subject, subscriber);
            }
        }
    }

    fn key(&mut self, id: Id) -> Result<Key, LoadError> {
        if let Some(key) = Key::own(&id).or_else(|| self.dictionary.find(&id)) {
            return Ok(key);
        }
        let key = self.dictionary.hold(&id).map_err(LoadError::Dictionary)?;
        self.names.push((key, id));
        Ok(key)
    }
}

/// The old graph and the new edges, merged while they are written.
struct Merged<'a, P> {
    old: Option<&'a Snapshot>,
    names: Vec<(Key, Id)>,
    edges: Edges,
    written: u64,
    of: u64,
    /// Edges of the old graph.
    kept: u64,
    progress: P,
}

impl<P: FnMut(LoadProgress)> Contents for &mut Merged<'_, P> {
    fn rows(&mut self) -> Result<Rows, redb::Error> {
        self.old.map_or_else(|| Ok(Rows::new()), Snapshot::all_rows)
    }

    fn names(&mut self) -> Result<Vec<(Key, Id)>, redb::Error> {
        let mut names = std::mem::take(&mut self.names);
        names.sort_unstable_by_key(|(key, _)| *key);
        Ok(names)
    }

    fn pairs(
        &mut self,
        direction: Direction,
        each: &mut dyn FnMut(Pair) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        (self.progress)(LoadProgress::Sorting);
        self.edges.sort(direction);
        let mut new = self.edges.iter().peekable();
        let mut old = match self.old {
            Some(old) => Some(old.stored_pairs(direction)?),
            None => None,
        };
        let mut next_old = || old.as_mut().map_or(Ok(None), |old| old.next_pair());
        let (mut written, mut kept) = (0_u64, 0);
        let mut stored = next_old()?;
        loop {
            let pair = match (stored, new.peek()) {
                (None, None) => break,
                (Some(pair), Some(&new)) if new < pair => new,
                (Some(pair), _) => pair,
                (None, Some(&new)) => new,
            };
            new.next_if_eq(&pair);
            if stored == Some(pair) {
                kept += 1;
                stored = next_old()?;
            }
            each(pair)?;
            written += 1;
            if written.is_multiple_of(LINES_PER_REPORT) {
                let written = self.written + written;
                let of = self.of.max(written);
                (self.progress)(LoadProgress::Writing { written, of });
            }
        }
        self.written += written;
        self.kept = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
