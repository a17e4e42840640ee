//! Ids and query values come out of a target as they were put in.

use proptest::prelude::*;
use wire::target::{ID_BYTES_MAX, IDS_MAX, IdsError, decode_segment, ids, query_value};

fn ids_of(segment: &str, query: Option<&str>) -> Result<Vec<String>, IdsError> {
    ids(segment, query).map(|ids| ids.into_iter().map(|id| id.into_owned()).collect())
}

/// Encodes every byte that is not a letter or digit, as a careful client would.
fn encode(id: &str) -> String {
    id.bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[test]
fn ids_come_from_the_segment_and_the_query() {
    let cases: &[(&str, Option<&str>, &[&str])] = &[
        ("rj", None, &["rj"]),
        ("a,b,c", None, &["a", "b", "c"]),
        ("", Some("id=a&id=b"), &["a", "b"]),
        ("", Some("x=y&id=b&&id=c&id=b"), &["b", "c"]),
        ("a%2Cb,c", None, &["a,b", "c"]),
        ("a%2fb", None, &["a/b"]),
        ("a+b", None, &["a+b"]),
        ("", Some("id=a+b"), &["a b"]),
        ("", Some("id=a%2Bb"), &["a+b"]),
        ("", Some("id=a,b"), &["a,b"]),
        ("", Some("id=a/b"), &["a/b"]),
        ("", Some("%69d=a"), &["a"]),
        ("", Some("id=a=b"), &["a=b"]),
        ("a,b,a,%61", Some("idx=c"), &["a", "b"]),
        ("%C3%A9,é", None, &["é"]),
        ("a", Some("other=%zz"), &["a"]),
    ];
    for &(segment, query, expected) in cases {
        let found = ids_of(segment, query);
        assert_eq!(
            found.as_deref(),
            Ok(&expected.iter().map(|&id| id.to_owned()).collect::<Vec<_>>()[..])
        );
    }
}

// `/events/alice?id=bob` once logged in as both, and a proxy's rule on `/events/{user}` saw alice
// only.
#[test]
fn ids_in_both_the_path_and_the_query_are_refused() {
    for query in [
        "id=bob",
        "id=alice",
        "x=y&id=bob",
        "%69d=bob",
        "id=",
        "id",
        "id=%",
    ] {
        let found = ids_of("alice", Some(query));
        assert_eq!(found, Err(IdsError::TwoPlaces), "{query}");
    }
}

#[test]
fn each_bad_id_is_refused_by_name() {
    let long = "x".repeat(ID_BYTES_MAX + 1);
    let cases: &[(&str, Option<&str>, IdsError)] = &[
        ("", None, IdsError::Empty),
        ("", Some("x=y"), IdsError::Empty),
        ("", Some("id="), IdsError::Empty),
        ("", Some("id"), IdsError::Empty),
        (",", None, IdsError::Empty),
        ("a,", None, IdsError::Empty),
        ("a,,b", None, IdsError::Empty),
        (&long, None, IdsError::TooLong),
        ("%", None, IdsError::BadPercent),
        ("%4", None, IdsError::BadPercent),
        ("%4g", None, IdsError::BadPercent),
        ("%+1", None, IdsError::BadPercent),
        ("%é", None, IdsError::BadPercent),
        ("", Some("id=%"), IdsError::BadPercent),
        ("%FF", None, IdsError::NotUtf8),
        ("%C0%AF", None, IdsError::NotUtf8),
        ("%ED%A0%80", None, IdsError::NotUtf8),
        ("%00", None, IdsError::Control),
        ("a%0Ab", None, IdsError::Control),
        ("%7F", None, IdsError::Control),
        ("%C2%85", None, IdsError::Control),
        ("a/b", None, IdsError::ExtraPath),
        ("/", None, IdsError::ExtraPath),
    ];
    for &(segment, query, error) in cases {
        assert_eq!(ids_of(segment, query), Err(error), "{segment:?} {query:?}");
        let status = if error == IdsError::ExtraPath {
            404
        } else {
            400
        };
        assert_eq!(error.status().code(), status);
        assert!(error.reason().ends_with('.'));
    }
}

#[test]
fn the_most_and_the_longest_ids_are_accepted_and_one_more_is_not() {
    let numbered = |count: usize| {
        (0..count)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(",")
    };
    let repeated = format!("{},0", numbered(IDS_MAX));
    assert_eq!(ids_of(&repeated, None).unwrap().len(), IDS_MAX);
    assert_eq!(ids_of(&numbered(IDS_MAX + 1), None), Err(IdsError::TooMany));
    let in_query = format!("id={}", numbered(IDS_MAX + 1).replace(',', "&id="));
    assert_eq!(ids_of("", Some(&in_query)), Err(IdsError::TooMany));
    let longest = "é".repeat(ID_BYTES_MAX / 2);
    assert_eq!(ids_of(&encode(&longest), None), Ok(vec![longest]));
    assert!(IdsError::TooMany.reason().contains(&IDS_MAX.to_string()));
    assert!(
        IdsError::TooLong
            .reason()
            .contains(&ID_BYTES_MAX.to_string())
    );
}

#[test]
fn a_query_value_is_decoded_as_a_form_and_may_be_anything() {
    let query = Some("a=1&last_event_id=e-%377+x&a=2&n=%00");
    assert_eq!(
        query_value(query, "last_event_id").unwrap().unwrap(),
        "e-77 x"
    );
    assert_eq!(query_value(query, "a").unwrap().unwrap(), "1");
    assert_eq!(query_value(query, "n").unwrap().unwrap(), "\0");
    assert_eq!(query_value(query, "b"), Ok(None));
    assert_eq!(query_value(None, "a"), Ok(None));
    assert_eq!(query_value(Some(""), ""), Ok(None));
    assert_eq!(query_value(Some("a=%F"), "a"), Err(IdsError::BadPercent));
}

/// Returns an id that the rules allow.
fn id() -> impl Strategy<Value = String> {
    "\\PC{1,40}".prop_filter("an id", |id| {
        id.len() <= ID_BYTES_MAX && !id.chars().any(char::is_control)
    })
}

proptest! {
    #[test]
    fn encoded_ids_come_back(all in prop::collection::vec(id(), 1..10), in_query: bool) {
        let mut distinct: Vec<String> = Vec::new();
        for id in &all {
            if !distinct.contains(id) {
                distinct.push(id.clone());
            }
        }
        let encoded: Vec<_> = all.iter().map(|id| encode(id)).collect();
        let found = match in_query {
            true => ids_of("", Some(&format!("id={}", encoded.join("&id=")))),
            false => ids_of(&encoded.join(","), None),
        };
        prop_assert_eq!(found, Ok(distinct));
        let first = encode(&all[0]);
        prop_assert_eq!(decode_segment(&first).unwrap(), all[0].as_str());
    }

    #[test]
    fn any_target_gives_ids_within_the_rules_or_a_refusal(
        segment in "[ -~é%,]*", query in "[ -~é%&=+]*",
    ) {
        if let Ok(found) = ids_of(&segment, Some(&query)) {
            prop_assert!((1..=IDS_MAX).contains(&found.len()));
            for id in found {
                prop_assert!((1..=ID_BYTES_MAX).contains(&id.len()));
                prop_assert!(!id.chars().any(char::is_control));
            }
        }
    }
}
