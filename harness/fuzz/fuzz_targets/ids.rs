//! Any text as the rest of a path and a query: ids within the rules, or a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::target::{ID_BYTES_MAX, IDS_MAX, decode_segment, ids, query_value};

fuzz_target!(|input: &str| {
    let (segment, query) = match input.split_once('?') {
        Some((segment, query)) => (segment, Some(query)),
        None => (input, None),
    };
    let _ = query_value(query, "last_event_id");
    if let Ok(id) = decode_segment(segment) {
        assert!((1..=ID_BYTES_MAX).contains(&id.len()));
    }
    let Ok(found) = ids(segment, query) else {
        return;
    };
    assert!((1..=IDS_MAX).contains(&found.len()));
    for (at, id) in found.iter().enumerate() {
        assert!((1..=ID_BYTES_MAX).contains(&id.len()));
        assert!(!id.chars().any(char::is_control));
        assert!(!found[..at].contains(id));
        // What was decoded survives another encoding.
        let encoded: String = id.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(decode_segment(&encoded).as_deref(), Ok(&**id));
    }
});
