//! Properties of all terms.

use erlang::term::{Raw, TermError, text, write};
use proptest::prelude::*;

use crate::value::{Value, text_of, value};

proptest! {
    #[test]
    fn a_written_term_reads_back(value in value()) {
        let bytes = value.external();
        prop_assert_eq!(Value::of(Raw::external(&bytes).unwrap()), value);
    }

    #[test]
    fn every_prefix_of_a_term_is_truncated(value in value()) {
        let bytes = value.external();
        for end in 0..bytes.len() {
            let read = Raw::external(&bytes[..end]);
            prop_assert_eq!(read, Err(TermError::Truncated), "the first {} bytes", end);
        }
    }

    #[test]
    fn a_term_ends_where_the_next_begins(first in value(), second in value()) {
        let (mut bytes, mut next) = (Vec::new(), Vec::new());
        first.write(&mut bytes);
        second.write(&mut next);
        let end = bytes.len();
        bytes.extend(&next);
        let (term, rest) = Raw::parse(&bytes).unwrap();
        prop_assert_eq!(term.bytes().len(), end);
        prop_assert_eq!(rest, &next);
    }

    #[test]
    fn any_bytes_are_a_readable_term_or_an_error(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        bytes.insert(0, 131);
        if let Ok(term) = Raw::external(&bytes) {
            let _ = text::of(term, 10_000);
        }
    }

    #[test]
    fn a_changed_byte_causes_no_panic(
        value in value(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut bytes = value.external();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(term) = Raw::external(&bytes) {
            let _ = text::of(term, 10_000);
        }
    }

    #[test]
    fn a_text_is_never_longer_than_allowed(value in value(), bytes_max in 0_usize..100) {
        let bytes = value.external();
        let whole = text_of(&bytes);
        let term = Raw::external(&bytes).unwrap();
        match text::of(term, bytes_max) {
            Ok(text) => prop_assert_eq!(text, whole),
            // A refused text may have fitted only if it is shorter than its term.
            Err(_) => prop_assert!(whole.len() > bytes_max || bytes.len() * 2 > bytes_max),
        }
    }

    #[test]
    fn integers_of_any_size_read_back(integer in any::<i64>()) {
        let mut bytes = Vec::new();
        write::integer(&mut bytes, integer);
        let (term, _) = Raw::parse(&bytes).unwrap();
        prop_assert_eq!(text::of(term, 100).unwrap(), integer.to_string());
        let mut wide = vec![110, 8, u8::from(integer < 0)];
        wide.extend(integer.unsigned_abs().to_le_bytes());
        prop_assert_eq!(Value::of(Raw::parse(&wide).unwrap().0), Value::Integer(integer));
    }
}
