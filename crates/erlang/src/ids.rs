//! Terms as ids, and ids as terms.
//!
//! Integers are integers; atoms, binaries and strings are their text; any other term is its text in Erlang's
//! own form. An id that no Erlang node has spelt is an integer or a binary, never an atom: peers keep atoms
//! for ever.

use graph::{ID_BYTES_MAX, Id, IdError};

use crate::term::{Raw, Term, text, write};

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

/// Writes an id as one that nobody has spelt.
pub(crate) fn write_plain(out: &mut Vec<u8>, id: &Id) {
    match id {
        Id::Integer(integer) => write::integer(out, integer.cast_signed()),
        Id::Text(text) => write::binary(out, text.as_bytes()),
    }
}
