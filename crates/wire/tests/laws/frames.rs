//! Frames, byte for byte: what is written, and where it lies.

use wire::encoding::Encoding;
use wire::event::{Event, Payload, Subject};
use wire::frame::{LAST_CHUNK, Position, encode, farewell, heartbeat, notice, welcome};
use wire::notice::{Expiry, FROM_BYTES_MAX, Notice, ResetReason};
use wire::transport::{Framing, Transport};

use crate::{oracle_chunks, oracle_sse, oracle_tungstenite};

fn event(payload: Payload<'_>) -> Event<'_> {
    Event {
        epoch: "e1",
        position: 7,
        complete: 7,
        subject: Subject::Integer(42),
        kind: None,
        payload,
    }
}

fn body(encoding: Encoding, event: &Event<'_>) -> String {
    let mut out = Vec::new();
    let frame = encode(encoding, event, &mut out);
    String::from_utf8(out[frame.body].to_vec()).expect("these bodies are text")
}

#[test]
fn an_event_stream_has_id_type_data_and_a_blank_line() {
    let mut shown = event(Payload::Text(b"hello"));
    assert_eq!(
        body(Encoding::SsePlain, &shown),
        "id: e1-7\ndata: hello\n\n"
    );
    shown.kind = Some("note");
    assert_eq!(
        body(Encoding::SsePlain, &shown),
        "id: e1-7\nevent: note\ndata: hello\n\n"
    );
}

/// Peers split `data` at LF alone, or at LF and CRLF; a client also splits at a bare CR, so that a
/// publisher could write fields of its own, `id` and `event` among them.
#[test]
fn a_payload_is_split_wherever_a_client_would_split_it() {
    let split = |text: &str| body(Encoding::SsePlain, &event(Payload::Text(text.as_bytes())));
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
    assert_eq!(body(Encoding::NdjsonJson, &shown), line);
    shown.subject = Subject::Text("a\"b");
    shown.kind = Some("k");
    shown.payload = Payload::Text("\u{1}\n\t\\\u{2028}é".as_bytes());
    let line = "{\"id\":\"e1-7\",\"subject\":\"a\\\"b\",\"type\":\"k\",\
                \"data\":\"\\u0001\\n\\t\\\\\u{2028}é\"}\n";
    assert_eq!(body(Encoding::NdjsonJson, &shown), line);
    shown = event(Payload::Binary(b"\xff\x00a\n"));
    let line = "{\"id\":\"e1-7\",\"subject\":42,\"data\":\"/wBhCg==\",\"encoding\":\"base64\"}\n";
    assert_eq!(body(Encoding::NdjsonJson, &shown), line);
}

#[test]
fn json_printed_over_many_lines_stays_on_one() {
    let shown = event(Payload::Json(b"{\r\n \"a\": 1\n}"));
    let line = "{\"id\":\"e1-7\",\"subject\":42,\"data\":{   \"a\": 1 }}\n";
    assert_eq!(body(Encoding::NdjsonJson, &shown), line);
}

#[test]
fn the_wire_of_2008_is_the_payload_and_nothing_else() {
    for payload in [
        Payload::Json(b"{\"a\":1}"),
        Payload::Text(b"a\nb"),
        Payload::Binary(b"a\0b"),
    ] {
        let shown = event(payload);
        assert_eq!(
            body(Encoding::TestPlain, &shown).as_bytes(),
            payload.as_bytes()
        );
    }
}

/// An empty chunk would end the stream for every recipient.
#[test]
fn an_empty_payload_never_becomes_an_empty_chunk() {
    let mut out = b"before".to_vec();
    let frame = encode(Encoding::TestPlain, &event(Payload::Text(b"")), &mut out);
    assert!(frame.is_empty());
    assert!(frame.whole.is_empty());
    assert_eq!(frame.range(Framing::Chunked), frame.range(Framing::Close));
    assert_eq!(out, b"before");
}

#[test]
fn frames_lie_one_after_the_other_and_touch_nothing_before_them() {
    let mut out = b"before".to_vec();
    let mut end = out.len();
    for encoding in Encoding::ALL {
        let frame = encode(encoding, &event(Payload::Text(b"a\nb")), &mut out);
        assert!(frame.whole.start >= end);
        assert!(frame.whole.start < frame.body.start && frame.body.end <= frame.whole.end);
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
            Encoding::TestPlain,
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
fn a_message_is_the_object_of_ndjson_without_its_line_feed() {
    for size in [0, 70, 200, 65_400, 65_535, 65_536, 1 << 19] {
        let text = "x".repeat(size);
        let shown = event(Payload::Text(text.as_bytes()));
        for (encoding, line) in [
            (Encoding::WebSocketJson, Encoding::NdjsonJson),
            (Encoding::WebSocketCloudEvents, Encoding::NdjsonCloudEvents),
        ] {
            let mut out = b"before".to_vec();
            let frame = encode(encoding, &shown, &mut out);
            let bytes = &out[frame.range(Framing::WebSocket)];
            let line = body(line, &shown);
            let expected = format!("text {}", line.trim_end());
            let is_read = oracle_tungstenite::client_reads(bytes).0 == [expected];
            assert!(is_read, "{encoding:?}, {size} bytes");
        }
    }
}

#[test]
fn encoding_into_room_enough_allocates_nothing() {
    let mut out = Vec::with_capacity(4096);
    let storage = out.as_ptr();
    let binary = [0xff; 200];
    for encoding in Encoding::ALL {
        for payload in [
            Payload::Text(b"a\nb\x01"),
            Payload::Json(b"[1]"),
            Payload::Binary(&binary),
        ] {
            out.clear();
            encode(encoding, &event(payload), &mut out);
            assert_eq!((out.capacity(), out.as_ptr()), (4096, storage));
        }
    }
}

#[test]
fn a_welcome_opens_each_stream_in_its_own_way() {
    let opened = |transport| {
        let mut out = b"head".to_vec();
        let frame = welcome(transport, ["1", "rj"], 3000, None, &mut out);
        let chunk = oracle_chunks::decode(&out[frame.whole]).expect("a welcome is a chunk");
        assert_eq!(chunk.content(), &out[frame.body.clone()]);
        String::from_utf8(out[frame.body].to_vec()).expect("a welcome is text")
    };
    assert_eq!(opened(Transport::Sse), ":\nretry: 3000\n\n");
    assert_eq!(opened(Transport::Ndjson), "{}\n");
    let mut out = Vec::new();
    let frame = welcome(Transport::WebSocket, ["1"], 3000, None, &mut out);
    assert_eq!(&out[frame.range(Framing::WebSocket)], b"\x81\x02{}");
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
    assert!(farewell(Transport::WebSocket, 1, &mut out).is_empty());
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
    let ping = heartbeat(Transport::WebSocket).unwrap();
    let (messages, _) = oracle_tungstenite::client_reads(ping.bytes(Framing::WebSocket));
    assert_eq!(messages, ["ping ", "text {}"]);
}

#[test]
fn a_subject_and_a_missing_type_become_what_cloud_events_require() {
    let shown = event(Payload::Json(b"{\n\"a\":1}"));
    let line = "{\"specversion\":\"1.0\",\"id\":\"e1-7\",\"source\":\"/encke\",\
                \"type\":\"encke.event\",\"subject\":\"42\",\
                \"datacontenttype\":\"application/json\",\"data\":{ \"a\":1}}\n";
    assert_eq!(body(Encoding::NdjsonCloudEvents, &shown), line);
    let message = format!("id: e1-7\ndata: {line}\n");
    assert_eq!(body(Encoding::SseCloudEvents, &shown), message);
}

/// A notice has no id: a client keeps its cursor, and can tell it from a published event.
#[test]
fn a_cloud_event_has_one_id_wherever_it_arrives_and_a_cursor_where_that_differs() {
    let mut shown = event(Payload::Text(b"hello"));
    assert!(!body(Encoding::NdjsonCloudEvents, &shown).contains("cursor"));
    shown.complete = 5;
    let body = body(Encoding::NdjsonCloudEvents, &shown);
    assert!(
        body.contains(r#""id":"e1-7","cursor":"e1-7-5","source""#),
        "{body}"
    );
}

#[test]
fn a_notice_reaches_each_client_in_the_form_of_its_events_without_an_id() {
    let told = |encoding, which: &Notice<'_>| {
        let mut out = Vec::new();
        let frame = notice(encoding, which, &mut out);
        String::from_utf8(out[frame.body].to_vec()).expect("a notice is text")
    };
    let notices = [
        (
            Notice::Expired(Expiry::Revoked),
            "expired",
            "{\"reason\":\"revoked\"}",
        ),
        (Notice::Gap { lost: 12 }, "gap", "{\"lost\":12}"),
        (
            Notice::Reset {
                reason: ResetReason::Restart,
                from: "a\"\r\n\u{0}é",
            },
            "reset",
            "{\"reason\":\"restart\",\"from\":\"a\\\"\\r\\n\\u0000é\"}",
        ),
        (
            Notice::Subscribed {
                ids: &[Subject::Integer(7), Subject::Text("r\"j")],
            },
            "subscribed",
            "{\"ids\":[7,\"r\\\"j\"]}",
        ),
        (
            Notice::Renewed { expires: Some(9) },
            "renewed",
            "{\"expires\":9}",
        ),
        (
            Notice::Refused {
                reason: "a\nb",
                reference: None,
            },
            "error",
            "{\"reason\":\"a\\nb\"}",
        ),
        (
            Notice::Refused {
                reason: "no",
                reference: Some("\"1"),
            },
            "error",
            "{\"reason\":\"no\",\"ref\":\"\\\"1\"}",
        ),
        (
            Notice::Published {
                position: Position {
                    epoch: "e",
                    position: 7,
                },
                reference: Some("\r\n"),
            },
            "published",
            "{\"id\":\"e-7\",\"ref\":\"\\r\\n\"}",
        ),
    ];
    for (which, name, data) in notices {
        let event = format!("event: {name}\ndata: {data}\n\n");
        let object = format!("{{\"type\":\"{name}\",\"data\":{data}}}");
        assert_eq!(told(Encoding::SsePlain, &which), event);
        assert_eq!(told(Encoding::SseCloudEvents, &which), event);
        assert_eq!(
            told(Encoding::SseJson, &which),
            format!("data: {object}\n\n")
        );
        for encoding in [Encoding::NdjsonJson, Encoding::NdjsonCloudEvents] {
            assert_eq!(told(encoding, &which), format!("{object}\n"));
        }
        for encoding in [Encoding::WebSocketJson, Encoding::WebSocketCloudEvents] {
            assert_eq!(told(encoding, &which), object);
        }
        assert_eq!(told(Encoding::TestPlain, &which), "");
    }
}

#[test]
fn a_reset_repeats_no_more_of_a_clients_text_than_a_cursor_has() {
    let mut out = Vec::new();
    let from = "é".repeat(4000);
    let reason = ResetReason::Unknown;
    let reset = Notice::Reset {
        reason,
        from: &from,
    };
    let frame = notice(Encoding::NdjsonJson, &reset, &mut out);
    let line: serde_json::Value = serde_json::from_slice(&out[frame.body]).unwrap();
    assert_eq!(line["data"]["from"], from[..FROM_BYTES_MAX]);
}

#[test]
fn a_transport_and_a_format_make_at_most_one_encoding() {
    for encoding in Encoding::ALL {
        let (transport, format) = (encoding.transport(), encoding.format());
        assert_eq!(Encoding::new(transport, format), Some(encoding));
    }
    for transport in Transport::ALL {
        assert_eq!(Encoding::default_of(transport).transport(), transport);
    }
}
