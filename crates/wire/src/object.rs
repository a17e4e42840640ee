//! JSON objects of events, each on one line.
//!
//! Owns the members and their order: `id`, `subject`, `type` (when the event has a kind), `data`,
//! and `encoding` (when `data` is base64). Must never write a line break.

use crate::event::{Event, Payload, Subject, push_base64, push_id};
use crate::json;

/// Appends `event` as a JSON object.
pub fn push_object(event: &Event<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":\"");
    push_id(event, out);
    out.extend_from_slice(b"\",\"subject\":");
    push_subject(&event.subject, out);
    if let Some(kind) = event.kind {
        out.extend_from_slice(b",\"type\":");
        json::push_string(kind.as_bytes(), out);
    }
    out.extend_from_slice(b",\"data\":");
    match event.payload {
        Payload::Json(value) => json::push_value_on_one_line(value, out),
        Payload::Text(text) => json::push_string(text, out),
        Payload::Binary(bytes) => {
            out.push(b'"');
            push_base64(bytes, out);
            out.extend_from_slice(b"\",\"encoding\":\"base64\"");
        }
    }
    out.push(b'}');
}

/// Appends an id as JSON: a number if it is an integer.
pub(crate) fn push_subject(id: &Subject<'_>, out: &mut Vec<u8>) {
    match id {
        Subject::Integer(id) => {
            out.extend_from_slice(itoa::Buffer::new().format(*id).as_bytes());
        }
        Subject::Text(id) => json::push_string(id.as_bytes(), out),
    }
}
