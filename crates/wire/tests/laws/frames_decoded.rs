//! What independent decoders find in a stream is what was published.

use proptest::prelude::*;
use serde_json::Value;
use wire::event::{Event, Payload, Subject};
use wire::frame::{LAST_CHUNK, encode, heartbeat, welcome};
use wire::transport::{Framing, Transport};

use crate::{oracle_chunks, oracle_sse};

/// An event that owns its parts.
#[derive(Debug, Clone)]
struct Published {
    sequence: u64,
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
    (any::<u64>(), subject, kind, content).prop_map(|(sequence, subject, kind, payload)| {
        Published {
            sequence,
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
            sequence: self.sequence,
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
        format!("x9-{}", self.sequence)
    }
}

/// Encodes all events into one buffer and sends them under both framings; returns the bodies, which
/// must be the same under both.
fn streamed(transport: Transport, events: &[Published]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let frames: Vec<_> = events
        .iter()
        .map(|published| published.with(|event| encode(transport, event, &mut out)))
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

proptest! {
    #[test]
    fn an_event_source_gets_every_event_and_none_else(
        events in prop::collection::vec(published(), 0..6),
    ) {
        let mut stream = Vec::new();
        let opening = welcome(Transport::Sse, ["x"], 3000, &mut stream);
        stream = stream[opening.body].to_vec();
        for body in streamed(Transport::Sse, &events) {
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
        let bodies = streamed(Transport::Ndjson, &events);
        for (body, event) in bodies.iter().zip(&events) {
            let breaks = body.iter().filter(|&&byte| byte == b'\n' || byte == b'\r').count();
            prop_assert_eq!((breaks, body.last()), (1, Some(&b'\n')));
            let line: Value = serde_json::from_slice(body).unwrap();
            prop_assert_eq!(&line["id"], &Value::from(event.id()));
            let subject = event.subject.clone().map_or_else(Value::from, Value::from);
            prop_assert_eq!(&line["subject"], &subject);
            prop_assert_eq!(line.get("type").and_then(Value::as_str), event.kind.as_deref());
            let encoding = line.get("encoding").and_then(Value::as_str);
            match &event.payload {
                Content::Text(text) => prop_assert_eq!(&line["data"], text.as_str()),
                Content::Json(value) => prop_assert_eq!(&line["data"], value),
                Content::Binary(bytes) => {
                    prop_assert_eq!(&from_base64(line["data"].as_str().unwrap()), bytes);
                }
            }
            let binary = matches!(event.payload, Content::Binary(_));
            prop_assert_eq!(encoding, binary.then_some("base64"));
        }
    }

    #[test]
    fn each_payload_on_the_wire_of_2008_is_a_chunk_of_its_own(
        events in prop::collection::vec(published(), 0..6),
    ) {
        for (body, event) in streamed(Transport::Test, &events).iter().zip(&events) {
            event.with(|event| assert_eq!(body, event.payload.as_bytes()));
        }
    }

    #[test]
    fn a_kind_that_slipped_through_forges_no_field(kind in nasty_text()) {
        let payload = Payload::Text(b"x");
        let (subject, kind) = (Subject::Integer(1), Some(&*kind));
        let event = Event { epoch: "e", sequence: 1, subject, kind, payload };
        let mut out = Vec::new();
        let frame = encode(Transport::Sse, &event, &mut out);
        let client = oracle_sse::interpret(&out[frame.body]);
        prop_assert_eq!(client.messages.len(), 1);
        prop_assert_eq!(&client.messages[0].data, "x");
        prop_assert_eq!(&client.messages[0].last_event_id, "e-1");
        prop_assert_eq!(client.retry, None);
    }
}
