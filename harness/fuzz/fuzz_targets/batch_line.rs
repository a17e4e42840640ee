//! Any bytes as a line of a batch: no panic, and what the quick reader takes for an event is what
//! another parser of JSON finds in it.
#![no_main]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/items.rs"]
mod items;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/json.rs"]
mod json;
#[allow(unreachable_pub)]
#[path = "../../../crates/control/src/batch/fast_path.rs"]
mod fast_path;

use bytes::Bytes;
use items::{Items, Shape};
use libfuzzer_sys::fuzz_target;
use router::Payload;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let mut items = Items::new(Shape::Lines, 4096);
    items.feed(Bytes::copy_from_slice(data));
    items.end();
    while let Some(item) = items.next() {
        let Ok(item) = item else { continue };
        let Some(event) = fast_path::event(&item) else {
            continue;
        };
        let line: Value = match serde_json::from_slice(item.text) {
            Ok(line) => line,
            // The other parser keeps numbers as floats, and counts levels a little otherwise.
            Err(error) if error.to_string().starts_with("number out of range") => continue,
            Err(error) if error.to_string().starts_with("recursion limit") => continue,
            Err(error) => panic!("taken, and not JSON: {error}"),
        };
        let line = line.as_object().expect("a line is an object");
        assert!(line.keys().all(|it| ["subject", "data", "type"].contains(&it.as_str())));
        let subject = match &line["subject"] {
            Value::String(text) => text.clone(),
            number => number.to_string(),
        };
        assert_eq!(event.subject.to_string(), subject);
        let event_type = event.event_type.as_ref().map(|it| it.as_str());
        assert_eq!(event_type, line.get("type").and_then(Value::as_str));
        let data = &line["data"];
        match data {
            Value::String(text) => {
                assert_eq!(event.payload, Payload::text(text.clone().into()));
            }
            other => {
                let bytes = event.payload.bytes();
                assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
                assert_eq!(&serde_json::from_slice::<Value>(bytes).expect("JSON"), other);
            }
        }
    }
});
