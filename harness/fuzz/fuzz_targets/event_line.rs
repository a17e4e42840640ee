//! Any bytes as a line of a batch, read by the parser that takes all lines and as a CloudEvent: no
//! panic, the events that another parser of JSON finds, and those that the quick reader takes.
#![no_main]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/cloudevents.rs"]
mod cloudevents;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/batch/fast_path.rs"]
mod fast_path;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/items.rs"]
mod items;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/json.rs"]
mod json;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/control/src/batch/line.rs"]
mod line;

// What the parsers name of the rest of the crate.

mod body {
    pub(crate) fn event_too_large(_about: &str, length: usize, bytes_max: usize) -> String {
        format!("{length} bytes of {bytes_max}")
    }
}

mod problem {
    pub(crate) struct Problem;

    impl Problem {
        pub(crate) fn bad(_what: &str, _why: impl std::fmt::Display) -> Self {
            Self
        }
    }
}

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use items::{Items, Shape};
use libfuzzer_sys::fuzz_target;
use router::{ContentType, Event, Payload};
use serde_json::{Map, Value};

/// Bytes of the largest event.
const EVENT_BYTES_MAX: usize = 64;

fuzz_target!(|data: &[u8]| {
    let mut items = Items::new(Shape::Lines, 4096);
    items.feed(Bytes::copy_from_slice(data));
    items.end();
    while let Some(item) = items.next() {
        let Ok(item) = item else { continue };
        let plain = line::unusual(&item);
        if let Some(event) = fast_path::event(&item) {
            assert_eq!(plain.as_ref(), Ok(&event));
        }
        let cloud = cloudevents::element(item.text);
        if let Some(members) = members(item.text) {
            if let Ok(event) = &plain {
                check_event(&members, event);
            }
            if let Some(Ok(event)) = &cloud {
                check_cloud_event(&members, event);
            }
        }
        match line::event(&item, EVENT_BYTES_MAX) {
            Ok(event) => {
                assert!(event.payload.bytes().len() <= EVENT_BYTES_MAX);
                assert!(plain.as_ref() == Ok(&event) || cloud == Some(Ok(event)));
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
});

/// What another parser finds in a line, if that is an object of which it keeps all.
fn members(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn check_event(members: &Map<String, Value>, event: &Event) {
    let names = ["subject", "data", "type", "encoding"];
    assert!(members.keys().all(|it| names.contains(&it.as_str())));
    let subject = match &members["subject"] {
        Value::String(text) => text.clone(),
        number => number.to_string(),
    };
    assert_eq!(event.subject.to_string(), subject);
    assert_eq!(type_of(event), members.get("type").and_then(Value::as_str));
    let is_base64 = members.get("encoding").is_some_and(|it| *it == "base64");
    match &members["data"] {
        Value::String(text) if is_base64 => {
            let bytes = STANDARD.decode(text).expect("base64");
            assert_eq!(event.payload, Payload::binary(bytes.into()));
        }
        Value::String(text) => assert_eq!(event.payload, Payload::text(text.clone().into())),
        other => {
            assert!(!is_base64);
            check_json(&event.payload, other);
        }
    }
}

/// Checks an event against the CloudEvent that it comes from (JSON format 1.0.2, section 3).
fn check_cloud_event(members: &Map<String, Value>, event: &Event) {
    let attribute = |name: &str| members.get(name).and_then(Value::as_str);
    assert_eq!(attribute("specversion"), Some("1.0"));
    for needed in ["id", "source", "type", "subject"] {
        assert!(attribute(needed).is_some_and(|it| !it.is_empty()), "{needed}");
    }
    assert_eq!(type_of(event), attribute("type"));
    assert_eq!(Some(&*event.subject.to_string()), attribute("subject"));
    let data = members.get("data").filter(|it| !it.is_null());
    match (data, attribute("data_base64")) {
        (None, Some(text)) => {
            let bytes = STANDARD.decode(text).expect("base64");
            assert_eq!(event.payload, Payload::binary(bytes.into()));
        }
        (data, None) if event.payload.content_type() == ContentType::Text => {
            let is_named = attribute("datacontenttype").is_some();
            assert!(is_named, "without a content type, a string is JSON");
            let text = data.and_then(Value::as_str).map(str::as_bytes);
            assert_eq!(Some(&event.payload.bytes()[..]), text);
        }
        (data, None) => check_json(&event.payload, data.unwrap_or(&Value::Null)),
        (Some(_), Some(_)) => panic!("it has data twice"),
    }
}

fn check_json(payload: &Payload, value: &Value) {
    assert_eq!(payload.content_type(), ContentType::Json);
    let bytes = payload.bytes();
    assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
    assert_eq!(&serde_json::from_slice::<Value>(bytes).expect("JSON"), value);
}

fn type_of(event: &Event) -> Option<&str> {
    event.event_type.as_ref().map(|it| it.as_str())
}
