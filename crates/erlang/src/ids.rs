//! Terms as ids, and ids as the terms they came as.
//!
//! Integers are integers; atoms, binaries and strings are their text; any other term is its text in Erlang's
//! own form. How an id was spelt is remembered, so that it comes back as what was put in. An id that no
//! Erlang node has spelt comes back as an integer or a binary, never as an atom: peers keep atoms for ever.

use std::collections::HashMap;

use graph::{Graph, ID_BYTES_MAX, Id, IdError};

use crate::limits::SPELLINGS_BYTES_MAX;
use crate::term::{Raw, Term, text, write};

/// What an entry of the table costs besides the spelling and the text: table, id, pointers.
const ENTRY_BYTES: usize = 64;

/// The id that a term is.
///
/// # Errors
///
/// When it is none.
pub(crate) fn of_term(term: Raw<'_>) -> Result<Id, IdError> {
    match term.view() {
        Term::Integer(integer) if integer >= 0 => Id::integer(integer.cast_unsigned()),
        Term::Atom(atom) => Id::parse(&atom.text()),
        Term::Binary(bytes) => match str::from_utf8(bytes) {
            Ok(text) => Id::parse(text),
            Err(_) => of_text(term),
        },
        Term::String(_) | Term::List(_) => match text::string(term) {
            Some(text) => Id::parse(&text),
            None => of_text(term),
        },
        _ => of_text(term),
    }
}

fn of_text(term: Raw<'_>) -> Result<Id, IdError> {
    match text::of(term, ID_BYTES_MAX) {
        Ok(text) => Id::parse(&text),
        Err(text::TooLong) => Err(IdError::TooLong {
            bytes: term.bytes().len(),
        }),
    }
}

/// How ids were spelt, where that is not how they are spelt anyway.
#[derive(Debug, Default)]
pub(crate) struct Spellings {
    terms: HashMap<Id, Box<[u8]>>,
    bytes: usize,
    /// When to look next for ids that are gone.
    look_at: usize,
}

impl Spellings {
    /// Remembers how an id was spelt last.
    pub(crate) fn remember(&mut self, graph: &Graph, id: &Id, term: Raw<'_>) {
        let mut plain = Vec::new();
        write_plain(&mut plain, id);
        if plain == term.bytes() {
            self.forget(id);
            return;
        }
        if self
            .terms
            .get(id)
            .is_some_and(|known| **known == *term.bytes())
        {
            return;
        }
        let cost = cost(id, term.bytes());
        if self.bytes + cost > SPELLINGS_BYTES_MAX.min(self.look_at) {
            self.forget_the_gone(graph);
        }
        if self.bytes + cost <= SPELLINGS_BYTES_MAX {
            self.forget(id);
            self.bytes += cost;
            self.terms.insert(id.clone(), term.bytes().into());
        }
    }

    /// Writes an id as it was spelt.
    pub(crate) fn write(&self, out: &mut Vec<u8>, id: &Id) {
        match self.terms.get(id) {
            Some(term) => out.extend(term),
            None => write_plain(out, id),
        }
    }

    fn forget(&mut self, id: &Id) {
        if let Some(term) = self.terms.remove(id) {
            self.bytes -= cost(id, &term);
        }
    }

    /// Forgets the spellings of ids without edges and sessions. Looks again when there are twice as many.
    fn forget_the_gone(&mut self, graph: &Graph) {
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

fn cost(id: &Id, term: &[u8]) -> usize {
    let text = match id {
        Id::Integer(_) => 0,
        Id::Text(text) => text.len(),
    };
    ENTRY_BYTES + text + term.len()
}

fn write_plain(out: &mut Vec<u8>, id: &Id) {
    match id {
        Id::Integer(integer) => write::integer(out, integer.cast_signed()),
        Id::Text(text) => write::binary(out, text.as_bytes()),
    }
}
