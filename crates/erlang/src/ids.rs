//! Conversion between terms and ids.
//!
//! An integer is an integer; an atom, a binary or a string is its text; any other term is its text
//! as Erlang prints it. An id without an original term becomes an integer or a binary, never an
//! atom, because nodes never free atoms.

use graph::{ID_BYTES_MAX, ID_INTEGER_MAX, Id, IdError};

use crate::term::{Raw, Term, text, write};

/// Returns the id that a term names.
///
/// # Errors
///
/// When the term is not a valid id.
pub(crate) fn of_term(term: Raw<'_>) -> Result<Id, IdError> {
    match term.view() {
        Term::Integer(integer) if integer >= 0 => of_integer(integer.cast_unsigned()),
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

/// Converts an integer. Larger integers become text of their digits, as over HTTP.
fn of_integer(integer: u64) -> Result<Id, IdError> {
    match Id::integer(integer) {
        Err(IdError::IntegerTooLarge) => Id::parse(&integer.to_string()),
        id => id,
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
        Id::Text(text) => match large_integer(text) {
            Some(integer) => write::integer(out, integer),
            None => write::binary(out, text.as_bytes()),
        },
    }
}

/// Returns the integer above [`ID_INTEGER_MAX`] that `text` is the canonical form of.
fn large_integer(text: &str) -> Option<i64> {
    let is_canonical = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let integer: i64 = is_canonical.then(|| text.parse().ok())??;
    (integer.cast_unsigned() > ID_INTEGER_MAX).then_some(integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(value: i64) -> Vec<u8> {
        let mut term = Vec::new();
        write::integer(&mut term, value);
        term
    }

    #[test]
    fn every_integer_of_64_bits_is_an_id_that_comes_back_as_an_integer() {
        let most = ID_INTEGER_MAX.cast_signed();
        for value in [
            0,
            1,
            1 << 31,
            most - 1,
            most,
            most + 1,
            i64::MAX - 1,
            i64::MAX,
        ] {
            let term = integer(value);
            let id = of_term(Raw::parse(&term).unwrap().0).unwrap();
            assert_eq!(id, Id::parse(&value.to_string()).unwrap());
            let mut back = Vec::new();
            write_plain(&mut back, &id);
            assert_eq!(back, term, "{value}");
        }
    }

    #[test]
    fn text_that_only_resembles_a_large_integer_stays_text() {
        for text in [
            "09007199254740992",
            "+9007199254740992",
            "9007199254740992x",
            "9223372036854775808",
        ] {
            let mut back = Vec::new();
            write_plain(&mut back, &Id::parse(text).unwrap());
            let mut binary = Vec::new();
            write::binary(&mut binary, text.as_bytes());
            assert_eq!(back, binary, "{text}");
        }
    }
}
