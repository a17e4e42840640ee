//! How ids were spelt, so that they come back as what was put in.
//!
//! Owns the table, and the records of it that a file keeps. Must never touch a file.

use std::collections::HashMap;
use std::mem;

use graph::{Graph, Id};

use crate::ids;
use crate::limits::ID_TERMS_BYTES_MAX;
use crate::term::Raw;

/// What an entry of the table costs besides the spelling and the text: table, id, pointers.
const ENTRY_BYTES: usize = 64;

/// How ids were spelt, where that is not how they are spelt anyway.
#[derive(Debug, Default)]
pub(crate) struct IdTerms {
    terms: HashMap<Id, Box<[u8]>>,
    bytes: usize,
    /// When to look next for ids that are gone.
    look_at: usize,
    /// Records that the file lacks: terms behind their sizes. `None` where no file keeps them.
    unsaved: Option<Vec<u8>>,
}

/// An id, and the term that it was in a request.
pub(crate) type IdTerm = (Id, Box<[u8]>);

impl IdTerms {
    /// A table that a file keeps, which has these records: terms behind their sizes. Where two spell one id
    /// the last is right, and what is behind a record that is none does not count.
    pub(crate) fn restore(graph: &Graph, mut records: &[u8]) -> Self {
        let mut id_terms = Self::default();
        while let Some((record, rest)) = first_record(records) {
            records = rest;
            if let Ok(id) = ids::of_term(record)
                && graph.find(&id).is_some()
            {
                id_terms.remember(graph, &id, record.bytes());
            }
        }
        id_terms.unsaved = Some(Vec::new());
        id_terms
    }

    /// The whole table as records.
    pub(crate) fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        for term in self.terms.values() {
            push_record(&mut records, term);
        }
        records
    }

    /// Takes the records that the file lacks.
    pub(crate) fn take_unsaved(&mut self) -> Vec<u8> {
        self.unsaved.as_mut().map(mem::take).unwrap_or_default()
    }

    /// The file can be written no more.
    pub(crate) fn stop_recording(&mut self) {
        self.unsaved = None;
    }

    /// What must be [remembered](Self::remember) when the id is in the graph: nothing, if it comes back as
    /// this term anyway.
    pub(crate) fn term_to_remember(&self, id: &Id, term: Raw<'_>) -> Option<IdTerm> {
        let is_known = self.terms.contains_key(id) || !is_plain(id, term.bytes());
        is_known.then(|| (id.clone(), term.bytes().into()))
    }

    /// Remembers how an id of the graph was spelt last.
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
        if self.bytes + cost > ID_TERMS_BYTES_MAX.min(self.look_at) {
            self.forget_unused(graph);
        }
        if self.bytes + cost <= ID_TERMS_BYTES_MAX {
            self.bytes += cost;
            self.terms.insert(id.clone(), term.into());
            self.record(term);
        }
    }

    /// Writes an id as it was spelt.
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

    /// Forgets the id_terms of ids without edges and sessions. Looks again when there are twice as many.
    fn forget_unused(&mut self, graph: &Graph) {
        let bytes = &mut self.bytes;
        self.terms.retain(|id, term| {
            let is_there = graph.find(id).is_some();
            if !is_there {
                *bytes -= cost(id, term);
            }
            is_there
        });
        self.look_at = (2 * self.bytes).max(1 << 20);
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
