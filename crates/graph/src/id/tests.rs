//! Tests of ids.

use proptest::prelude::*;

use super::{ID_BYTES_MAX, ID_INTEGER_MAX, Id, IdError};

fn text(text: &str) -> Id {
    Id::Text(text.into())
}

#[test]
fn canonical_decimals_are_integers() {
    for integer in [
        0,
        1,
        9,
        10,
        (1 << 31) - 1,
        1 << 31,
        u64::from(u32::MAX),
        ID_INTEGER_MAX,
    ] {
        assert_eq!(Id::parse(&integer.to_string()), Ok(Id::Integer(integer)));
        assert_eq!(Id::integer(integer), Ok(Id::Integer(integer)));
    }
}

#[test]
fn noncanonical_numbers_are_text() {
    let spellings = [
        "01", "00", "-1", "-0", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "1_000", "\u{661}",
    ];
    for spelling in spellings {
        assert_eq!(Id::parse(spelling), Ok(text(spelling)), "{spelling:?}");
    }
}

#[test]
fn too_large_integers_are_text_in_paths_and_errors_in_json() {
    for integer in [ID_INTEGER_MAX + 1, u64::MAX] {
        let spelling = integer.to_string();
        assert_eq!(Id::parse(&spelling), Ok(text(&spelling)));
        assert_eq!(Id::integer(integer), Err(IdError::IntegerTooLarge));
    }
    assert_eq!(Id::parse("9007199254740992"), Ok(text("9007199254740992")));
    let long = "9".repeat(ID_BYTES_MAX);
    assert_eq!(Id::parse(&long), Ok(text(&long)));
}

#[test]
fn text_is_bounded_in_bytes_not_characters() {
    assert_eq!(Id::parse(""), Err(IdError::Empty));
    let longest = "é".repeat(ID_BYTES_MAX / 2);
    assert_eq!(Id::parse(&longest), Ok(text(&longest)));
    let too_long = format!("{longest}a");
    assert_eq!(
        Id::parse(&too_long),
        Err(IdError::TooLong {
            bytes: ID_BYTES_MAX + 1
        })
    );
}

#[test]
fn the_error_has_the_offset_of_a_control_character() {
    for control in ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}') {
        let refused = Err(IdError::ControlCharacter { at: 3 });
        assert_eq!(Id::parse(&format!("aé{control}b")), refused, "{control:?}");
    }
    for allowed in [" ", "~", "\u{a0}", "名前", "🙂"] {
        assert_eq!(Id::parse(allowed), Ok(text(allowed)));
    }
}

#[test]
fn errors_name_the_fault_and_the_limit() {
    assert_eq!(
        IdError::TooLong { bytes: 129 }.to_string(),
        "the id has 129 bytes; an id must have 1 to 128 bytes"
    );
    assert_eq!(
        IdError::ControlCharacter { at: 3 }.to_string(),
        "the id has a control character at byte 3; remove it"
    );
    assert!(IdError::Empty.to_string().contains("empty"));
    assert!(
        IdError::IntegerTooLarge
            .to_string()
            .contains("9007199254740991")
    );
}

#[test]
fn json_has_integers_as_numbers_and_text_as_strings() {
    let read = |json: &str| serde_json::from_str::<Id>(json).map_err(|error| error.to_string());
    assert_eq!(read("7"), Ok(Id::Integer(7)));
    assert_eq!(read("\"7\""), Ok(Id::Integer(7)));
    assert_eq!(read("\"07\""), Ok(text("07")));
    assert_eq!(read("\"a\\u0301\""), Ok(text("a\u{301}")));
    assert_eq!(serde_json::to_string(&Id::Integer(7)).unwrap(), "7");
    assert_eq!(serde_json::to_string(&text("07")).unwrap(), "\"07\"");
}

#[test]
fn json_of_other_types_is_refused() {
    let too_long = format!("\"{}\"", "a".repeat(129));
    let refused = [
        "-1",
        "1.0",
        "1e3",
        "9007199254740992",
        "\"\"",
        "\"\\n\"",
        "null",
        "true",
        "[1]",
        "{}",
    ];
    for json in refused.into_iter().chain([too_long.as_str()]) {
        assert!(serde_json::from_str::<Id>(json).is_err(), "{json}");
    }
}

proptest! {
    #[test]
    fn an_id_is_parsed_from_its_text(spelling in "\\PC{1,40}|[0-9]{1,20}|[-+]?0?[0-9]{1,3}") {
        if let Ok(id) = Id::parse(&spelling) {
            prop_assert_eq!(id.to_string(), spelling);
            prop_assert_eq!(Id::parse(&id.to_string()), Ok(id));
        }
    }

    #[test]
    fn an_id_is_read_back_from_json(spelling in "\\PC{1,30}|[0-9]{1,20}") {
        if let Ok(id) = Id::parse(&spelling) {
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<Id>(&json).unwrap(), id);
        }
    }

    #[test]
    fn every_integer_in_range_is_read_back(integer in 0..=ID_INTEGER_MAX) {
        let id = Id::integer(integer).unwrap();
        prop_assert_eq!(Id::parse(&id.to_string()), Ok(id));
    }
}
