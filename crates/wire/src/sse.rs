//! Server-Sent Events: the body of one event (WHATWG HTML, section 9.2.5).
//!
//! Owns the fields and their line breaks. Must never let a publisher's bytes start another field:
//! every CR, LF and CRLF in a payload starts a new `data` line, as the client's parser splits
//! there.

use crate::event::{Event, Payload, blank_line_breaks, push_base64, push_id};

/// Appends `event` as `id`, `event` (when it has a kind), `data` lines, and the blank line that
/// dispatches it.
pub fn encode(event: &Event<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"id: ");
    push_id(event, out);
    out.push(b'\n');
    if let Some(kind) = event.kind {
        out.extend_from_slice(b"event: ");
        let start = out.len();
        out.extend_from_slice(kind.as_bytes());
        // Publishing refuses such types. If one gets here, it must not forge a field.
        blank_line_breaks(&mut out[start..]);
        out.push(b'\n');
    }
    match event.payload {
        Payload::Json(text) | Payload::Text(text) => push_data(text, out),
        Payload::Binary(bytes) => {
            out.extend_from_slice(b"data: ");
            push_base64(bytes, out);
            out.push(b'\n');
        }
    }
    out.push(b'\n');
}

/// Appends `event` as `id`, one `data` line that `push_line` appends, and the blank line that
/// dispatches it. Without an `event` field: all events reach a client as `message`.
pub fn encode_line(
    event: &Event<'_>,
    push_line: impl FnOnce(&Event<'_>, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"id: ");
    push_id(event, out);
    out.extend_from_slice(b"\ndata: ");
    push_line(event, out);
    out.extend_from_slice(b"\n\n");
}

/// Appends `text` as `data` lines, at least one: clients do not dispatch an event without a `data`
/// line, and they remove only the break after the last one.
fn push_data(mut text: &[u8], out: &mut Vec<u8>) {
    loop {
        out.extend_from_slice(b"data: ");
        let Some(end) = memchr::memchr2(b'\r', b'\n', text) else {
            out.extend_from_slice(text);
            out.push(b'\n');
            return;
        };
        out.extend_from_slice(&text[..end]);
        out.push(b'\n');
        let width = if text[end..].starts_with(b"\r\n") {
            2
        } else {
            1
        };
        text = &text[end + width..];
    }
}

/// Appends the `retry` field: the reconnect delay in milliseconds.
pub fn push_retry(retry_ms: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"retry: ");
    out.extend_from_slice(itoa::Buffer::new().format(retry_ms).as_bytes());
    out.extend_from_slice(b"\n\n");
}
