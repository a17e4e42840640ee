//! Encoding of terms. Each function appends one term, or the head of one whose parts are appended
//! next.
//!
//! Atoms must be known at compile time or come from a peer: a BEAM never frees an atom, and its
//! table is finite.

use super::view::Raw;
use super::{Atom, Pid, tag};

/// Appends the version byte that precedes a whole term.
pub fn version(out: &mut Vec<u8>) {
    out.push(tag::VERSION);
}

/// Appends an integer.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    if let Ok(small) = u8::try_from(value) {
        out.extend([tag::SMALL_INTEGER, small]);
    } else if let Ok(medium) = i32::try_from(value) {
        out.push(tag::INTEGER);
        out.extend(medium.to_be_bytes());
    } else {
        let magnitude = value.unsigned_abs().to_le_bytes();
        let used = magnitude.len() - value.unsigned_abs().leading_zeros() as usize / 8;
        out.extend([tag::SMALL_BIG, used as u8, u8::from(value < 0)]);
        out.extend(&magnitude[..used]);
    }
}

/// Appends a float, which must be finite.
pub fn float(out: &mut Vec<u8>, value: f64) {
    debug_assert!(value.is_finite(), "Erlang has no {value}");
    out.push(tag::NEW_FLOAT);
    out.extend(value.to_bits().to_be_bytes());
}

/// Appends an atom of at most 255 characters.
pub fn atom(out: &mut Vec<u8>, text: &str) {
    match u8::try_from(text.len()) {
        Ok(size) => out.extend([tag::SMALL_ATOM_UTF8, size]),
        Err(_) => {
            out.push(tag::ATOM_UTF8);
            out.extend((text.len() as u16).to_be_bytes());
        }
    }
    out.extend(text.as_bytes());
}

/// Appends a binary.
pub fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    sized(out, tag::BINARY, bytes.len());
    out.extend(bytes);
}

/// Appends the head of a tuple.
pub fn tuple(out: &mut Vec<u8>, count: usize) {
    match u8::try_from(count) {
        Ok(count) => out.extend([tag::SMALL_TUPLE, count]),
        Err(_) => sized(out, tag::LARGE_TUPLE, count),
    }
}

/// Appends the head of a list of at least one element. Its tail follows the elements.
pub fn list(out: &mut Vec<u8>, count: usize) {
    sized(out, tag::LIST, count);
}

/// Appends the empty list.
pub fn nil(out: &mut Vec<u8>) {
    out.push(tag::NIL);
}

/// Appends the head of a map. Keys and values follow alternately.
pub fn map(out: &mut Vec<u8>, pairs: usize) {
    sized(out, tag::MAP, pairs);
}

/// Appends a pid.
pub fn pid(out: &mut Vec<u8>, pid: Pid<'_>) {
    out.push(tag::NEW_PID);
    atom(out, &pid.node.text());
    for number in [pid.id, pid.serial, pid.creation] {
        out.extend(number.to_be_bytes());
    }
}

/// Appends a reference of at most five words.
pub fn reference(out: &mut Vec<u8>, node: Atom<'_>, creation: u32, words: &[u32]) {
    out.push(tag::NEWER_REFERENCE);
    out.extend((words.len() as u16).to_be_bytes());
    atom(out, &node.text());
    out.extend(creation.to_be_bytes());
    for word in words {
        out.extend(word.to_be_bytes());
    }
}

/// Appends a term as a peer encoded it.
pub fn raw(out: &mut Vec<u8>, term: Raw<'_>) {
    out.extend(term.bytes());
}

fn sized(out: &mut Vec<u8>, tag: u8, size: usize) {
    debug_assert!(u32::try_from(size).is_ok(), "a term holds less than 2^32");
    out.push(tag);
    out.extend((size as u32).to_be_bytes());
}
