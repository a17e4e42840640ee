//! What independent decoders find in a stream is what was published.

use proptest::prelude::*;
use serde_json::Value;
use wire::encoding::Encoding;
use wire::event::{Event, Payload, Subject};
use wire::frame::{LAST_CHUNK, encode, heartbeat, welcome};
use wire::transport::{Framing, Transport};

use crate::{oracle_chunks, oracle_sse};

/// An event that owns its parts.
#[derive(Debug, Clone)]
struct Published {
    position: u64,
    subject: Result<u64, String>,
    kind: Option<String>,
    payload: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Json(Value),
    Text(String),
    Binary(Vec<u8>),
}

/// Text rich in what encoders get wrong.
fn nasty_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\r",
        "\n",
        "\r\n",
        "\0",
        "\u{1}",
        "\u{1f}",
        "\u{7f}",
        "\u{2028}",
        "\u{feff}",
        "é",
        "😀",
        "\"",
        "\\",
        "a",
        " ",
        ":",
        "data: x",
        "id: forged",
        "event: forged",
        "retry: 1",
        "\t",
        "\u{8}",
        "\u{c}",
        "/",
        "<",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn published() -> impl Strategy<Value = Published> {
    let content = prop_oneof![
        nasty_text().prop_map(Content::Text),
        any::<String>().prop_map(Content::Text),
        prop::collection::vec(any::<u8>(), 0..100).prop_map(Content::Binary),
        (nasty_text(), any::<i64>()).prop_map(|(text, number)| {
            Content::Json(serde_json::json!({ "text": text, "list": [number, null, true] }))
        }),
    ];
    let subject = prop_oneof![any::<u64>().prop_map(Ok), nasty_text().prop_map(Err)];
    let kind = prop::option::of("[a-zé :.]{1,12}");
    (any::<u64>(), subject, kind, content).prop_map(|(position, subject, kind, payload)| {
        Published {
            position,
            subject,
            kind,
            payload,
        }
    })
}

impl Published {
    /// Calls `act` with the event as the encoders take it; JSON is printed over many lines.
    fn with<T>(&self, act: impl FnOnce(&Event<'_>) -> T) -> T {
        let printed;
        act(&Event {
            epoch: "x9",
            position: self.position,
            complete: self.position,
            subject: match &self.subject {
                Ok(id) => Subject::Integer(*id),
                Err(id) => Subject::Text(id),
            },
            kind: self.kind.as_deref(),
            payload: match &self.payload {
                Content::Json(value) => {
                    printed = format!("{value:#}");
                    Payload::Json(printed.as_bytes())
                }
                Content::Text(text) => Payload::Text(text.as_bytes()),
                Content::Binary(bytes) => Payload::Binary(bytes),
            },
        })
    }

    fn id(&self) -> String {
        format!("x9-{}", self.position)
    }
}

/// Encodes all events into one buffer and sends them under both framings; returns the bodies, which
/// must be the same under both.
fn streamed(encoding: Encoding, events: &[Published]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let frames: Vec<_> = events
        .iter()
        .map(|published| published.with(|event| encode(encoding, event, &mut out)))
        .collect();
    let sent = |framing| {
        frames
            .iter()
            .map(|frame| &out[frame.range(framing)])
            .collect::<Vec<_>>()
    };
    let chunked = [sent(Framing::Chunked).concat().as_slice(), LAST_CHUNK].concat();
    let decoded = oracle_chunks::decode(&chunked).expect("frames are chunks");
    assert!(decoded.ended, "nothing but the last chunk ends the stream");
    let bodies = sent(Framing::Close);
    assert_eq!(decoded.content(), bodies.concat());
    bodies.into_iter().map(<[u8]>::to_vec).collect()
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("not base64: {byte}"),
    };
    assert_eq!(text.len() % 4, 0, "padded");
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let data = four.iter().take_while(|&&byte| byte != b'=').count();
        let bits = four[..data]
            .iter()
            .fold(0_u32, |bits, &byte| bits << 6 | u32::from(value(byte)));
        let bits = bits << (6 * (4 - data));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..data]);
    }
    bytes
}

fn one_line(body: &[u8]) -> Value {
    let is_break = |byte: &&u8| matches!(byte, b'\n' | b'\r');
    assert_eq!(body.iter().filter(is_break).count(), 1);
    assert_eq!(body.last(), Some(&b'\n'));
    serde_json::from_slice(body).expect("a line is JSON")
}

/// Compares a decoded object with what was published.
type Check = fn(&Value, &Published);

fn check_object(object: &Value, event: &Published) {
    assert_eq!(object["id"], event.id());
    let subject = event.subject.clone().map_or_else(Value::from, Value::from);
    assert_eq!(object["subject"], subject);
    assert_eq!(
        object.get("type").and_then(Value::as_str),
        event.kind.as_deref()
    );
    match &event.payload {
        Content::Text(text) => assert_eq!(object["data"], text.as_str()),
        Content::Json(value) => assert_eq!(&object["data"], value),
        Content::Binary(bytes) => {
            assert_eq!(
                &from_base64(object["data"].as_str().expect("base64")),
                bytes
            );
        }
    }
    let encoding = object.get("encoding").and_then(Value::as_str);
    let is_binary = matches!(event.payload, Content::Binary(_));
    assert_eq!(encoding, is_binary.then_some("base64"));
}

/// Checks what CloudEvents 1.0.2 requires of an event in the JSON format.
fn check_cloud_event(object: &Value, event: &Published) {
    assert_eq!(object["specversion"], "1.0");
    assert_eq!(object["id"], event.id());
    assert_eq!(object["source"], "/encke");
    assert_eq!(
        object["type"],
        event.kind.as_deref().unwrap_or("encke.event")
    );
    let subject = match &event.subject {
        Ok(id) => id.to_string(),
        Err(id) => id.clone(),
    };
    assert_eq!(object["subject"], subject, "attributes are strings");
    let (content_type, data) = match &event.payload {
        Content::Text(text) => ("text/plain", Value::from(text.as_str())),
        Content::Json(value) => ("application/json", value.clone()),
        Content::Binary(bytes) => {
            assert_eq!(
                &from_base64(object["data_base64"].as_str().expect("base64")),
                bytes
            );
            ("application/octet-stream", Value::Null)
        }
    };
    assert_eq!(object["datacontenttype"], content_type);
    assert_eq!(object["data"], data);
    // Attributes have names of lower-case letters and digits; `data_base64` is a member.
    for name in object.as_object().expect("an object").keys() {
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        assert!(is_name || name == "data_base64", "{name}");
    }
}

proptest! {
    #[test]
    fn an_event_source_gets_every_event_and_none_else(
        events in prop::collection::vec(published(), 0..6),
    ) {
        let mut stream = Vec::new();
        let opening = welcome(Transport::Sse, ["x"], 3000, None, &mut stream);
        stream = stream[opening.body].to_vec();
        for body in streamed(Encoding::SsePlain, &events) {
            stream.extend_from_slice(&body);
            let beat = heartbeat(Transport::Sse).expect("an event stream has a heart");
            stream.extend_from_slice(beat.bytes(Framing::Close));
        }
        let client = oracle_sse::interpret(&stream);
        prop_assert_eq!(client.retry, Some(3000));
        prop_assert_eq!(client.messages.len(), events.len());
        for (message, event) in client.messages.iter().zip(&events) {
            prop_assert_eq!(&message.last_event_id, &event.id());
            prop_assert_eq!(&message.kind, event.kind.as_deref().unwrap_or("message"));
            match &event.payload {
                // A client cannot tell the line breaks apart: each becomes LF.
                Content::Text(text) => {
                    prop_assert_eq!(&message.data, &text.replace("\r\n", "\n").replace('\r', "\n"));
                }
                Content::Json(value) => {
                    prop_assert_eq!(&serde_json::from_str::<Value>(&message.data).unwrap(), value);
                }
                Content::Binary(bytes) => prop_assert_eq!(&from_base64(&message.data), bytes),
            }
        }
    }

    #[test]
    fn ndjson_is_one_object_a_line_with_all_that_was_published(
        events in prop::collection::vec(published(), 0..6),
    ) {
        let bodies = streamed(Encoding::NdjsonJson, &events);
        for (body, event) in bodies.iter().zip(&events) {
            check_object(&one_line(body), event);
        }
    }

    #[test]
    fn cloud_events_are_one_a_line_with_all_that_was_published(
        events in prop::collection::vec(published(), 0..6),
    ) {
        let bodies = streamed(Encoding::NdjsonCloudEvents, &events);
        for (body, event) in bodies.iter().zip(&events) {
            check_cloud_event(&one_line(body), event);
        }
    }

    #[test]
    fn objects_in_an_event_stream_are_the_data_of_messages(
        events in prop::collection::vec(published(), 0..6),
    ) {
        let checks: [(_, Check); 2] = [
            (Encoding::SseJson, check_object),
            (Encoding::SseCloudEvents, check_cloud_event),
        ];
        for (encoding, check) in checks {
            let client = oracle_sse::interpret(&streamed(encoding, &events).concat());
            prop_assert_eq!(client.messages.len(), events.len());
            for (message, event) in client.messages.iter().zip(&events) {
                prop_assert_eq!(&message.last_event_id, &event.id());
                prop_assert_eq!(&message.kind, "message", "one handler sees all");
                check(&serde_json::from_str(&message.data).unwrap(), event);
            }
        }
    }

    #[test]
    fn each_payload_on_the_wire_of_2008_is_a_chunk_of_its_own(
        events in prop::collection::vec(published(), 0..6),
    ) {
        for (body, event) in streamed(Encoding::TestPlain, &events).iter().zip(&events) {
            event.with(|event| assert_eq!(body, event.payload.as_bytes()));
        }
    }

    #[test]
    fn a_kind_that_slipped_through_forges_no_field(kind in nasty_text()) {
        let payload = Payload::Text(b"x");
        let (subject, kind) = (Subject::Integer(1), Some(&*kind));
        let event = Event { epoch: "e", position: 1, complete: 1, subject, kind, payload };
        let mut out = Vec::new();
        let frame = encode(Encoding::SsePlain, &event, &mut out);
        let client = oracle_sse::interpret(&out[frame.body]);
        prop_assert_eq!(client.messages.len(), 1);
        prop_assert_eq!(&client.messages[0].data, "x");
        prop_assert_eq!(&client.messages[0].last_event_id, "e-1");
        prop_assert_eq!(client.retry, None);
    }
}
