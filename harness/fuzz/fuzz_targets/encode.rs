//! Any event on any transport: the frame is one well-formed chunk around its body, and no byte of
//! the publisher's begins a line of its own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::event::{Event, Payload, Subject};
use wire::frame::encode;
use wire::transport::Transport;
use wire::websocket;
use wire::encoding::Encoding;

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, cut], rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (kind, payload) = rest.split_at(usize::from(cut).min(rest.len()));
    let (kind, text) = (
        String::from_utf8_lossy(kind),
        String::from_utf8_lossy(payload),
    );
    let event = Event {
        epoch: "e",
        position: u64::from(cut),
        complete: u64::from(cut),
        subject: if choice & 1 == 0 {
            Subject::Integer(1)
        } else {
            Subject::Text(&text)
        },
        kind: (choice & 2 == 0).then_some(&*kind),
        payload: if choice & 4 == 0 {
            Payload::Text(text.as_bytes())
        } else {
            Payload::Binary(payload)
        },
    };
    for encoding in Encoding::ALL {
        let mut out = b"before".to_vec();
        let frame = encode(encoding, &event, &mut out);
        assert!(out.starts_with(b"before"));
        let (whole, body) = (&out[frame.whole.clone()], &out[frame.body.clone()]);
        if body.is_empty() {
            assert!(encoding == Encoding::TestPlain && whole.is_empty());
            continue;
        }
        if encoding.transport() == Transport::WebSocket {
            let mut message = Vec::new();
            websocket::push_frame(websocket::Opcode::Text, body, &mut message);
            assert_eq!(whole, message);
        } else {
            let size = format!("{:x}\r\n", body.len());
            assert_eq!(whole, [size.as_bytes(), body, b"\r\n"].concat());
        }
        match encoding {
            Encoding::SsePlain | Encoding::SseJson | Encoding::SseCloudEvents => {
                assert_fields(body);
            }
            Encoding::NdjsonJson | Encoding::NdjsonCloudEvents => {
                let last = body.len() - 1;
                assert_eq!(body.iter().position(|&byte| byte < b' '), Some(last));
            }
            Encoding::TestPlain => assert_eq!(body, event.payload.as_bytes()),
            Encoding::WebSocketJson | Encoding::WebSocketCloudEvents => {
                assert!(body.iter().all(|&byte| byte >= b' '));
            }
        }
    }
});

/// Every line, at any line end a client knows, is a field that the encoder meant to write.
fn assert_fields(body: &[u8]) {
    let lines = body
        .strip_suffix(b"\n\n")
        .expect("a blank line dispatches the event");
    for (at, line) in lines
        .split(|&byte| byte == b'\r' || byte == b'\n')
        .enumerate()
    {
        let known = match at {
            0 => line.starts_with(b"id: e-"),
            1 => line.starts_with(b"event: ") || line.starts_with(b"data: "),
            _ => line.starts_with(b"data: "),
        };
        assert!(known, "line {at}: {}", line.escape_ascii());
    }
}
