//! The original terms of ids, so that Erlang nodes receive ids as they sent them.
//!
//! Owns the table and the records for its file. Must never touch a file.

use std::collections::HashMap;
use std::mem;

use graph::{Graph, Id};

use crate::ids;
use crate::limits::ID_TERMS_BYTES_MAX;
use crate::term::Raw;

/// Bytes of a table entry besides the term and the text: table slot, id, pointers.
const ENTRY_BYTES: usize = 64;

/// The original terms of ids that would otherwise come back as another term.
#[derive(Debug, Default)]
pub(crate) struct IdTerms {
    terms: HashMap<Id, Box<[u8]>>,
    bytes: usize,
    /// Bytes of terms that may still come until the next search for unused ids.
    until_search: usize,
    /// Records that are not in the file yet: a size and a term each. `None` without a file.
    unsaved: Option<Vec<u8>>,
}

/// An id, and the term that named it in a request.
pub(crate) type IdTerm = (Id, Box<[u8]>);

impl IdTerms {
    /// Builds a table from the records of its file. The last term of an id is the valid one, and
    /// everything after a malformed record is ignored. Terms of ids that are not in the graph are
    /// outdated, unless the graph `is_behind` a log that may still contain them.
    pub(crate) fn restore(graph: &Graph, mut records: &[u8], is_behind: bool) -> Self {
        let mut id_terms = Self::default();
        if is_behind {
            id_terms.until_search = usize::MAX;
        }
        while let Some((record, rest)) = first_record(records) {
            records = rest;
            if let Ok(id) = ids::of_term(record)
                && (is_behind || graph.find(&id).is_some())
            {
                id_terms.remember(graph, &id, record.bytes());
            }
        }
        id_terms.schedule_search();
        id_terms.unsaved = Some(Vec::new());
        id_terms
    }

    /// Returns the whole table as records.
    pub(crate) fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        for term in self.terms.values() {
            push_record(&mut records, term);
        }
        records
    }

    /// Takes the records that are not in the file yet.
    pub(crate) fn take_unsaved(&mut self) -> Vec<u8> {
        self.unsaved.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Returns whether there are records that are not in the file yet, if there is a file.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.unsaved
            .as_ref()
            .is_some_and(|records| !records.is_empty())
    }

    /// Stops recording, because the file can no longer be written.
    pub(crate) fn stop_recording(&mut self) {
        self.unsaved = None;
    }

    /// Returns what to [remember](Self::remember) once the id is in the graph. `None` if the id
    /// comes back as this term anyway.
    pub(crate) fn term_to_remember(&self, id: &Id, term: Raw<'_>) -> Option<IdTerm> {
        let is_known = self.terms.contains_key(id) || !is_plain(id, term.bytes());
        is_known.then(|| (id.clone(), term.bytes().into()))
    }

    /// Remembers the last term that named an id of the graph.
    pub(crate) fn remember(&mut self, graph: &Graph, id: &Id, term: &[u8]) {
        let known = self.terms.get(id);
        if is_plain(id, term) {
            if known.is_some() {
                self.forget(id);
                self.record(term);
            }
            return;
        }
        if known.is_some_and(|known| **known == *term) {
            return;
        }
        self.forget(id);
        let cost = cost(id, term);
        match self.until_search.checked_sub(cost) {
            Some(rest) => self.until_search = rest,
            None => self.forget_unused(graph),
        }
        if self.bytes + cost <= ID_TERMS_BYTES_MAX {
            self.bytes += cost;
            self.terms.insert(id.clone(), term.into());
            self.record(term);
        }
    }

    /// Writes an id as its original term.
    pub(crate) fn write(&self, out: &mut Vec<u8>, id: &Id) {
        match self.terms.get(id) {
            Some(term) => out.extend(term),
            None => ids::write_plain(out, id),
        }
    }

    fn record(&mut self, term: &[u8]) {
        if let Some(unsaved) = &mut self.unsaved {
            push_record(unsaved, term);
        }
    }

    fn forget(&mut self, id: &Id) {
        if let Some(term) = self.terms.remove(id) {
            self.bytes -= cost(id, &term);
        }
    }

    /// Removes entries of ids without edges and sessions. The next search is when as many bytes
    /// have come as are left, so that each term costs the look at one other, also when the table
    /// is full.
    fn forget_unused(&mut self, graph: &Graph) {
        let bytes = &mut self.bytes;
        self.terms.retain(|id, term| {
            let is_there = graph.find(id).is_some();
            if !is_there {
                *bytes -= cost(id, term);
            }
            is_there
        });
        self.schedule_search();
    }

    fn schedule_search(&mut self) {
        self.until_search = self.bytes.max(1 << 20);
    }
}

fn is_plain(id: &Id, term: &[u8]) -> bool {
    let mut plain = Vec::new();
    ids::write_plain(&mut plain, id);
    plain == term
}

fn cost(id: &Id, term: &[u8]) -> usize {
    let text = match id {
        Id::Integer(_) => 0,
        Id::Text(text) => text.len(),
    };
    ENTRY_BYTES + text + term.len()
}

fn push_record(records: &mut Vec<u8>, term: &[u8]) {
    records.extend((term.len() as u32).to_be_bytes());
    records.extend(term);
}

fn first_record(records: &[u8]) -> Option<(Raw<'_>, &[u8])> {
    let (size, rest) = records.split_first_chunk()?;
    let (record, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
    match Raw::parse(record) {
        Ok((term, [])) => Some((term, rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
