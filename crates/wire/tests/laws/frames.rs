//! Frames, byte for byte: what is written, and where it lies.

use wire::event::{Event, Payload, Subject};
use wire::frame::{LAST_CHUNK, encode, farewell, heartbeat, welcome};
use wire::transport::{Framing, Transport};

use crate::{oracle_chunks, oracle_sse};

fn event(payload: Payload<'_>) -> Event<'_> {
    Event {
        epoch: "e1",
        sequence: 7,
        subject: Subject::Integer(42),
        kind: None,
        payload,
    }
}

fn body(transport: Transport, event: &Event<'_>) -> String {
    let mut out = Vec::new();
    let frame = encode(transport, event, &mut out);
    String::from_utf8(out[frame.body].to_vec()).expect("these bodies are text")
}

#[test]
fn an_event_stream_has_id_type_data_and_a_blank_line() {
    let mut shown = event(Payload::Text(b"hello"));
    assert_eq!(body(Transport::Sse, &shown), "id: e1-7\ndata: hello\n\n");
    shown.kind = Some("note");
    assert_eq!(
        body(Transport::Sse, &shown),
        "id: e1-7\nevent: note\ndata: hello\n\n"
    );
}

/// Peers split `data` at LF alone, or at LF and CRLF; a client also splits at a bare CR, so that a
/// publisher could write fields of its own, `id` and `event` among them.
#[test]
fn a_payload_is_split_wherever_a_client_would_split_it() {
    let split = |text: &str| body(Transport::Sse, &event(Payload::Text(text.as_bytes())));
    let expected = "id: e1-7\ndata: a\ndata: b\ndata: c\ndata: d\n\n";
    assert_eq!(split("a\rb\nc\r\nd"), expected);
    assert_eq!(split("a\n\rb"), "id: e1-7\ndata: a\ndata: \ndata: b\n\n");
    assert_eq!(split("a\n"), "id: e1-7\ndata: a\ndata: \n\n");
    assert_eq!(split(""), "id: e1-7\ndata: \n\n");
}

#[test]
fn ndjson_writes_members_in_order_and_escapes_what_json_must() {
    let mut shown = event(Payload::Json(br#"{"a":[1]}"#));
    let line = "{\"id\":\"e1-7\",\"subject\":42,\"data\":{\"a\":[1]}}\n";
    assert_eq!(body(Transport::Ndjson, &shown), line);
    shown.subject = Subject::Text("a\"b");
    shown.kind = Some("k");
    shown.payload = Payload::Text("\u{1}\n\t\\\u{2028}é".as_bytes());
    let line = "{\"id\":\"e1-7\",\"subject\":\"a\\\"b\",\"type\":\"k\",\
                \"data\":\"\\u0001\\n\\t\\\\\u{2028}é\"}\n";
    assert_eq!(body(Transport::Ndjson, &shown), line);
    shown = event(Payload::Binary(b"\xff\x00a\n"));
    let line = "{\"id\":\"e1-7\",\"subject\":42,\"data\":\"/wBhCg==\",\"encoding\":\"base64\"}\n";
    assert_eq!(body(Transport::Ndjson, &shown), line);
}

#[test]
fn json_printed_over_many_lines_stays_on_one() {
    let shown = event(Payload::Json(b"{\r\n \"a\": 1\n}"));
    let line = "{\"id\":\"e1-7\",\"subject\":42,\"data\":{   \"a\": 1 }}\n";
    assert_eq!(body(Transport::Ndjson, &shown), line);
}

#[test]
fn the_wire_of_2008_is_the_payload_and_nothing_else() {
    for payload in [
        Payload::Json(b"{\"a\":1}"),
        Payload::Text(b"a\nb"),
        Payload::Binary(b"a\0b"),
    ] {
        let shown = event(payload);
        assert_eq!(body(Transport::Test, &shown).as_bytes(), payload.as_bytes());
    }
}

/// An empty chunk would end the stream for every recipient.
#[test]
fn an_empty_payload_never_becomes_an_empty_chunk() {
    let mut out = b"before".to_vec();
    let frame = encode(Transport::Test, &event(Payload::Text(b"")), &mut out);
    assert!(frame.is_empty());
    assert!(frame.whole.is_empty());
    assert_eq!(frame.range(Framing::Chunked), frame.range(Framing::Close));
    assert_eq!(out, b"before");
}

#[test]
fn frames_lie_one_after_the_other_and_touch_nothing_before_them() {
    let mut out = b"before".to_vec();
    let mut end = out.len();
    for transport in Transport::ALL {
        let frame = encode(transport, &event(Payload::Text(b"a\nb")), &mut out);
        assert!(frame.whole.start >= end);
        assert!(frame.whole.start < frame.body.start && frame.body.end < frame.whole.end);
        assert_eq!(frame.whole.end, out.len());
        end = out.len();
    }
    assert!(out.starts_with(b"before"));
}

#[test]
fn chunk_sizes_are_right_around_every_digit() {
    for size in [1, 15, 16, 17, 255, 256, 4095, 4096, 65_535, 65_536, 1 << 20] {
        let text = "x".repeat(size);
        let mut out = Vec::new();
        let frame = encode(
            Transport::Test,
            &event(Payload::Text(text.as_bytes())),
            &mut out,
        );
        let mut stream = out[frame.whole].to_vec();
        assert!(stream.starts_with(format!("{size:x}\r\n").as_bytes()));
        stream.extend_from_slice(LAST_CHUNK);
        let decoded = oracle_chunks::decode(&stream).unwrap();
        assert_eq!(
            (decoded.content(), decoded.ended),
            (text.into_bytes(), true)
        );
    }
}

#[test]
fn encoding_into_room_enough_allocates_nothing() {
    let mut out = Vec::with_capacity(4096);
    let storage = out.as_ptr();
    let binary = [0xff; 200];
    for transport in Transport::ALL {
        for payload in [
            Payload::Text(b"a\nb\x01"),
            Payload::Json(b"[1]"),
            Payload::Binary(&binary),
        ] {
            out.clear();
            encode(transport, &event(payload), &mut out);
            assert_eq!((out.capacity(), out.as_ptr()), (4096, storage));
        }
    }
}

#[test]
fn a_welcome_opens_each_stream_in_its_own_way() {
    let opened = |transport| {
        let mut out = b"head".to_vec();
        let frame = welcome(transport, ["1", "rj"], 3000, &mut out);
        let chunk = oracle_chunks::decode(&out[frame.whole]).expect("a welcome is a chunk");
        assert_eq!(chunk.content(), &out[frame.body.clone()]);
        String::from_utf8(out[frame.body].to_vec()).expect("a welcome is text")
    };
    assert_eq!(opened(Transport::Sse), ":\nretry: 3000\n\n");
    assert_eq!(opened(Transport::Ndjson), "{}\n");
    assert_eq!(
        opened(Transport::Test),
        "Encke welcomes you! Your Id: 1,rj\n"
    );
}

#[test]
fn a_farewell_has_the_reconnect_delay_where_the_transport_has_a_field_for_it() {
    let mut out = Vec::new();
    let frame = farewell(Transport::Sse, 12_345, &mut out);
    let client = oracle_sse::interpret(&out[frame.body]);
    assert_eq!((client.retry, client.messages.len()), (Some(12_345), 0));
    assert!(farewell(Transport::Ndjson, 1, &mut out).is_empty());
    assert!(farewell(Transport::Test, 1, &mut out).is_empty());
}

#[test]
fn a_heartbeat_is_seen_by_proxies_and_by_no_application() {
    for transport in [Transport::Sse, Transport::Ndjson] {
        let beat = heartbeat(transport).unwrap();
        let chunk = oracle_chunks::decode(beat.bytes(Framing::Chunked)).unwrap();
        assert_eq!(chunk.content(), beat.bytes(Framing::Close));
    }
    let beat = heartbeat(Transport::Sse).unwrap().bytes(Framing::Close);
    assert!(oracle_sse::interpret(&beat.repeat(3)).messages.is_empty());
    assert_eq!(heartbeat(Transport::Test), None);
}
