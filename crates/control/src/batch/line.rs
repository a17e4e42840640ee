//! One line of a batch, and the event that it spells.
//!
//! Must never allocate but what the event keeps.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use graph::Id;
use memchr::memchr;
use router::{Event, EventType, Payload};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::value::RawValue;
use wire::json::{LEVELS_MAX, check};

use super::fast_path;
use crate::body::event_too_large;
use crate::cloudevents;
use crate::items::Item;
use crate::json::{object, on_one_line, sentence};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    subject: Id,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default, rename = "type")]
    event_type: Option<LineEventType>,
    #[serde(default)]
    encoding: Option<Encoding>,
}

/// How a string in `data` spells bytes.
#[derive(Deserialize)]
enum Encoding {
    #[serde(rename = "base64")]
    Base64,
}

/// A [`EventType`], read from JSON without a copy in between.
struct LineEventType(EventType);

impl<'de> Deserialize<'de> for LineEventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EventTypeVisitor;
        impl Visitor<'_> for EventTypeVisitor {
            type Value = LineEventType;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event type: a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<LineEventType, E> {
                EventType::from_str(text)
                    .map(LineEventType)
                    .map_err(E::custom)
            }
        }
        deserializer.deserialize_str(EventTypeVisitor)
    }
}

/// Returns the event of a line, or the sentence that says why it has none.
pub(crate) fn event(item: &Item<'_>, event_bytes_max: usize) -> Result<Event, String> {
    let event = match fast_path::event(item) {
        Some(event) => event,
        None => match unusual(item) {
            Ok(event) => event,
            Err(error) => cloudevents::element(item.text).unwrap_or(Err(error))?,
        },
    };
    let length = event.payload.bytes().len();
    if length > event_bytes_max {
        return Err(event_too_large("", length, event_bytes_max));
    }
    Ok(event)
}

/// Returns the event of any line.
pub(super) fn unusual(item: &Item<'_>) -> Result<Event, String> {
    let line: Line<'_> = object(item.text)?;
    Ok(Event {
        subject: line.subject,
        payload: payload(item, line.data.get(), line.encoding)?,
        event_type: line.event_type.map(|LineEventType(event_type)| event_type),
    })
}

fn payload(item: &Item<'_>, data: &str, encoding: Option<Encoding>) -> Result<Payload, String> {
    check(data.as_bytes(), LEVELS_MAX).map_err(|error| format!("data: {error}"))?;
    let text = match string(item, data)? {
        Some(text) => text,
        None if encoding.is_some() => {
            return Err("the encoding is base64, but the data is not a string".to_owned());
        }
        None => {
            return Ok(Payload::json(on_one_line(data, |data| {
                item.share(data.as_bytes())
            })));
        }
    };
    match encoding {
        None => Ok(Payload::text(text)),
        Some(Encoding::Base64) => match STANDARD.decode(&text) {
            Ok(bytes) => Ok(Payload::binary(bytes.into())),
            Err(error) => Err(format!("the data is not base64: {error}")),
        },
    }
}

/// Returns the text of a JSON string, shared with the line unless it has escapes; `None` for other
/// values.
fn string(item: &Item<'_>, data: &str) -> Result<Option<Bytes>, String> {
    let Some(quoted) = data
        .strip_prefix('"')
        .and_then(|data| data.strip_suffix('"'))
    else {
        return Ok(None);
    };
    if memchr(b'\\', quoted.as_bytes()).is_none() {
        return Ok(Some(item.share(quoted.as_bytes())));
    }
    match serde_json::from_str::<String>(data) {
        Ok(text) => Ok(Some(text.into())),
        Err(error) => Err(format!("the data is not valid text: {}", sentence(&error))),
    }
}
