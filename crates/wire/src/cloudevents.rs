//! CloudEvents 1.0 in the JSON event format, each on one line.
//!
//! Owns the attributes and their order. Required are `specversion`, `id`, `source` and `type`;
//! `subject`, `datacontenttype` and the data follow. There is no `time`: events do not have one.
//! Must never write a line break.

use crate::event::{Event, Payload, Subject, push_base64, push_cursor, push_id};
use crate::json;

/// `source` of every event. Together with `id` it is unique, because the id begins with the name of
/// the run of the server (CloudEvents 1.0.2, section 3.1.1).
pub const SOURCE: &str = "/encke";

/// `type` of events that were published without one: the attribute is required.
pub const DEFAULT_TYPE: &str = "encke.event";

/// Appends `event` as a CloudEvent.
pub fn push_cloud_event(event: &Event<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"specversion\":\"1.0\",\"id\":\"");
    // It names the event wherever it arrives, so it does not say what is complete.
    push_cursor(event.epoch, event.position, out);
    if event.complete < event.position {
        out.extend_from_slice(b"\",\"cursor\":\"");
        push_id(event, out);
    }
    out.extend_from_slice(b"\",\"source\":\"");
    out.extend_from_slice(SOURCE.as_bytes());
    out.extend_from_slice(b"\",\"type\":");
    json::push_string(event.kind.unwrap_or(DEFAULT_TYPE).as_bytes(), out);
    out.extend_from_slice(b",\"subject\":");
    match event.subject {
        // Attributes of type String: an integer id is text here.
        Subject::Integer(id) => {
            json::push_string(itoa::Buffer::new().format(id).as_bytes(), out);
        }
        Subject::Text(id) => json::push_string(id.as_bytes(), out),
    }
    match event.payload {
        Payload::Json(value) => {
            out.extend_from_slice(b",\"datacontenttype\":\"application/json\",\"data\":");
            json::push_value_on_one_line(value, out);
        }
        Payload::Text(text) => {
            out.extend_from_slice(b",\"datacontenttype\":\"text/plain\",\"data\":");
            json::push_string(text, out);
        }
        Payload::Binary(bytes) => {
            out.extend_from_slice(
                b",\"datacontenttype\":\"application/octet-stream\",\"data_base64\":\"",
            );
            push_base64(bytes, out);
            out.push(b'"');
        }
    }
    out.push(b'}');
}
