//! Any text as a message of a WebSocket client: refused with a short sentence, or a command that
//! says what another parser of JSON finds in it.
#![no_main]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/server/src/session/websocket/command.rs"]
mod command;

/// The bounds of the server that its commands know.
mod limits {
    pub(crate) const REFERENCE_BYTES_MAX: usize = 64;
}

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use command::{Command, Publication};
use graph::Id;
use libfuzzer_sys::fuzz_target;
use limits::REFERENCE_BYTES_MAX;
use router::{Event, Payload};
use serde_json::Value;
use wire::target::IDS_MAX;

/// Characters of the longest sentence for a client.
const SENTENCE_MAX: usize = 512;

fuzz_target!(|text: &str| {
    let command = match Command::parse(text) {
        Ok(command) => command,
        Err(why) => return assert_sentence(&why),
    };
    let message: Value = match serde_json::from_str(text) {
        Ok(message) => message,
        // The other parser keeps numbers as floats, and counts the levels of the message too.
        Err(error) if error.to_string().starts_with("number out of range") => return,
        Err(error) if error.to_string().starts_with("recursion limit") => return,
        // The client is told what is wrong with its event, and no more is read of that.
        Err(_)
            if let Command::Publish(publication) = &command
                && let Err(why) = &publication.event =>
        {
            return assert_sentence(why);
        }
        Err(error) => panic!("taken, and not JSON: {error}"),
    };
    let message = message.as_object().expect("a message is an object");
    assert_eq!(message.len(), 1);
    let (name, value) = message.iter().next().expect("it has a member");
    match command {
        Command::Subscribe(ids) => check_ids("subscribe", (name, value), &ids),
        Command::Unsubscribe(ids) => check_ids("unsubscribe", (name, value), &ids),
        Command::Renew(token) => assert_eq!((&**name, value.as_str()), ("token", Some(&*token))),
        Command::Start(cursor) => assert_eq!((&**name, value.as_str()), ("cursor", Some(&*cursor))),
        Command::Publish(publication) => {
            assert_eq!(name, "publish");
            check_publication(value, &publication);
        }
    }
});

fn check_ids(verb: &str, (name, value): (&String, &Value), ids: &[Id]) {
    assert_eq!(name, verb);
    let written = value.as_array().expect("an array of ids");
    assert!((1..=IDS_MAX).contains(&written.len()));
    let written: Vec<_> = written.iter().map(spelled).collect();
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[..at].contains(id), "each id once");
    }
    let mut spellings = ids.iter().map(ToString::to_string);
    assert!(spellings.all(|id| written.contains(&id)));
    assert!(written.iter().all(|id| ids.iter().any(|it| it.to_string() == *id)));
}

fn check_publication(value: &Value, publication: &Publication) {
    let members = value.as_object().expect("an event is an object");
    let names = ["subject", "type", "data", "encoding", "ref"];
    assert!(members.keys().all(|it| names.contains(&it.as_str())));
    let reference = members.get("ref").and_then(Value::as_str);
    assert_eq!(publication.reference.as_deref(), reference);
    assert!(reference.is_none_or(|it| it.len() <= REFERENCE_BYTES_MAX));
    let event = match &publication.event {
        Ok(event) => event,
        Err(why) => return assert_sentence(why),
    };
    let Event {
        subject,
        event_type,
        payload,
    } = event;
    assert_eq!(subject.to_string(), spelled(&members["subject"]));
    let event_type = event_type.as_ref().map(|it| it.as_str());
    assert_eq!(event_type, members.get("type").and_then(Value::as_str));
    let data = &members["data"];
    match (data, members.get("encoding").and_then(Value::as_str)) {
        (Value::String(text), Some("base64")) => {
            let bytes = STANDARD.decode(text).expect("base64");
            assert_eq!(*payload, Payload::binary(bytes.into()));
        }
        (Value::String(text), None) => assert_eq!(*payload, Payload::text(text.clone().into())),
        (other, None) => {
            let bytes = payload.bytes();
            assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
            assert_eq!(&serde_json::from_slice::<Value>(bytes).expect("JSON"), other);
        }
        other => panic!("taken with an encoding: {other:?}"),
    }
}

/// An id as it is written in JSON: a string, or a number.
fn spelled(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

fn assert_sentence(why: &str) {
    assert!(!why.is_empty());
    assert!(why.chars().count() <= SENTENCE_MAX, "{why}");
}
