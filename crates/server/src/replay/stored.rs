//! Events of the history, as the encoders take them.

use graph::Id;
use history::Stored;
use router::ContentType;
use wire::event::{Event as WireEvent, Payload as WirePayload, Subject};

/// Returns a stored event as the encoders take it.
pub(crate) fn wire_event<'a>(
    epoch: &'a str,
    subject: &'a Id,
    stored: &Stored<'a>,
) -> WireEvent<'a> {
    let entry = stored.entry;
    WireEvent {
        epoch,
        sequence: entry.position,
        complete: entry.position,
        subject: match subject {
            Id::Integer(number) => Subject::Integer(*number),
            Id::Text(text) => Subject::Text(text),
        },
        kind: (!entry.event_type.is_empty()).then_some(entry.event_type),
        payload: match ContentType::of_tag(entry.tag) {
            Some(ContentType::Json) => WirePayload::Json(entry.payload),
            Some(ContentType::Text) => WirePayload::Text(entry.payload),
            Some(ContentType::Binary) | None => WirePayload::Binary(entry.payload),
        },
    }
}
