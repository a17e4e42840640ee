//! Conversion between terms and ids.
//!
//! An integer is an integer; an atom, a binary or a string is its text; any other term is its text
//! as Erlang prints it. An id without an original term becomes an integer or a binary, never an
//! atom, because nodes never free atoms.

use graph::{ID_BYTES_MAX, Id, IdError};

use crate::term::{Raw, Term, text, write};

/// The id that a term names.
///
/// # Errors
///
/// When the term is not a valid id.
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

/// Writes an id that has no original term.
pub(crate) fn write_plain(out: &mut Vec<u8>, id: &Id) {
    match id {
        Id::Integer(integer) => write::integer(out, integer.cast_signed()),
        Id::Text(text) => write::binary(out, text.as_bytes()),
    }
}
