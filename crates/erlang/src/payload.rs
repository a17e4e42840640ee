//! Conversion between terms and event payloads.
//!
//! A binary is its text, or its bytes if it is not UTF-8; a printable string is its text; any other
//! term is its text as Erlang prints it. Processes receive the term itself, which is the payload's
//! second encoding.

use std::rc::Rc;

use bytes::Bytes;
use router::Payload;

use crate::term::{Raw, Term, text, write};

/// Converts a message to a payload. `None` if it has more than `bytes_max` bytes.
pub(crate) fn of_term(term: Raw<'_>, bytes_max: usize) -> Option<Payload> {
    let text = match term.view() {
        Term::Binary(bytes) => return of_bytes(Bytes::copy_from_slice(bytes), bytes_max),
        Term::String(_) | Term::List(_) => text::string(term),
        _ => None,
    };
    let text = match text {
        Some(text) => text,
        None => text::of(term, bytes_max).ok()?,
    };
    if text.len().max(term.bytes().len()) > bytes_max {
        return None;
    }
    let native = Bytes::copy_from_slice(term.bytes());
    Some(Payload::text(text.into()).with_native(native))
}

/// Converts bytes to a payload. `None` if there are more than `bytes_max`.
pub(crate) fn of_bytes(bytes: Bytes, bytes_max: usize) -> Option<Payload> {
    if bytes.len() > bytes_max {
        return None;
    }
    Some(match str::from_utf8(&bytes) {
        Ok(_) => Payload::text(bytes),
        Err(_) => Payload::binary(bytes),
    })
}

/// Returns the bytes of an iolist: a binary, or a list of bytes, binaries and such lists. `None`
/// for any other term, or if there are more than `bytes_max`.
pub(crate) fn of_iolist(term: Raw<'_>, bytes_max: usize) -> Option<Bytes> {
    let mut out = Vec::new();
    flatten(term, bytes_max, &mut out)?;
    Some(out.into())
}

fn flatten(term: Raw<'_>, bytes_max: usize, out: &mut Vec<u8>) -> Option<()> {
    match term.view() {
        Term::Binary(bytes) | Term::String(bytes) => out.extend(bytes),
        Term::Nil => {}
        Term::List(list) => {
            for element in list.elements() {
                match element.view() {
                    Term::Integer(byte) => out.push(u8::try_from(byte).ok()?),
                    _ => flatten(element, bytes_max, out)?,
                }
            }
            // The tail may be a binary, but not a byte.
            flatten(list.tail(), bytes_max, out)?;
        }
        _ => return None,
    }
    (out.len() <= bytes_max).then_some(())
}

/// Encodes the message that a process receives: `{router_msg, Msg}`.
pub(crate) fn router_message(payload: &Payload) -> Rc<[u8]> {
    let mut out = Vec::with_capacity(payload.bytes().len() + 24);
    write::tuple(&mut out, 2);
    write::atom(&mut out, "router_msg");
    match payload.native() {
        Some(term) => out.extend(term),
        None => write::binary(&mut out, payload.bytes()),
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Raw<'_> {
        Raw::parse(bytes).unwrap().0
    }

    #[test]
    fn binaries_and_strings_are_text_and_other_terms_are_printed() {
        let payload = |bytes: &[u8]| of_term(parse(bytes), 100).unwrap();
        assert_eq!(payload(b"m\x00\x00\x00\x02hi"), Payload::text("hi".into()));
        assert_eq!(
            payload(b"m\x00\x00\x00\x01\xff"),
            Payload::binary(b"\xff"[..].into())
        );
        for (term, text) in [
            (&b"k\x00\x02hi"[..], "hi"),
            (b"k\x00\x02\x00\x01", "[0,1]"),
            (b"h\x02w\x01aa\x05", "{a,5}"),
            (b"j", "[]"),
        ] {
            let expected = Payload::text(text.into()).with_native(Bytes::copy_from_slice(term));
            assert_eq!(payload(term), expected);
        }
    }

    #[test]
    fn an_event_is_no_larger_than_allowed_in_either_form() {
        assert_eq!(of_term(parse(b"m\x00\x00\x00\x05hello"), 4), None);
        assert_eq!(of_term(parse(b"h\x02jj"), 3), None);
        assert!(of_term(parse(b"h\x02jj"), 7).is_some());
    }

    #[test]
    fn an_iolist_is_its_bytes() {
        let mut term = Vec::new();
        write::list(&mut term, 3);
        write::integer(&mut term, 104);
        write::binary(&mut term, b"el");
        term.extend(b"k\x00\x01l");
        write::binary(&mut term, b"o");
        assert_eq!(of_iolist(parse(&term), 5).as_deref(), Some(&b"hello"[..]));
        assert_eq!(of_iolist(parse(&term), 4), None);
        assert_eq!(of_iolist(parse(b"w\x01a"), 100), None);
        assert_eq!(of_iolist(parse(b"l\x00\x00\x00\x01aaaa"), 100), None);
        assert_eq!(
            of_iolist(parse(b"l\x00\x00\x00\x01b\x00\x00\x01\x00j"), 100),
            None
        );
    }
}
