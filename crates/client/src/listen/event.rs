//! An event, whatever transport it came by.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::decode::{Transport, lines, sse};
use crate::http::Part;

/// An event as it came. What a transport does not carry is nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The event id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Value>,
    /// The event's type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The payload.
    pub data: Value,
    /// `base64` when the payload is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

impl Event {
    /// The payload as a person reads it: text as it is, other JSON written out.
    pub fn text(&self) -> String {
        match &self.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

#[derive(Default)]
pub(super) struct Decoded {
    pub(super) events: Vec<Event>,
    pub(super) retry: Option<Duration>,
}

pub(super) enum Decoder {
    Sse(sse::Reader),
    Ndjson(lines::Reader),
    Chunks { welcomed: bool },
}

impl Decoder {
    pub(super) fn new(transport: Transport) -> Self {
        match transport {
            Transport::Sse => Self::Sse(sse::Reader::new()),
            Transport::Ndjson => Self::Ndjson(lines::Reader::new()),
            Transport::Chunks | Transport::Raw | Transport::WebSocket => {
                Self::Chunks { welcomed: false }
            }
        }
    }

    /// Decodes what has gathered in `bytes`, and empties it where nothing more is needed of it.
    pub(super) fn read(&mut self, bytes: &mut Vec<u8>, part: Part) -> Decoded {
        let mut decoded = Decoded::default();
        match self {
            Self::Sse(reader) => {
                let mut signals = Vec::new();
                reader.read(bytes, &mut signals);
                bytes.clear();
                for signal in signals {
                    match signal {
                        sse::Signal::Event(event) => decoded.events.push(of_sse(event)),
                        sse::Signal::Retry(millis) => {
                            decoded.retry = Some(Duration::from_millis(millis));
                        }
                        sse::Signal::Comment => {}
                    }
                }
            }
            Self::Ndjson(reader) => {
                reader.read(bytes, |line| decoded.events.extend(line.and_then(of_line)));
                bytes.clear();
            }
            Self::Chunks { welcomed } => {
                if part == Part::ChunkEnd {
                    let chunk = std::mem::take(bytes);
                    if std::mem::replace(welcomed, true) {
                        decoded
                            .events
                            .push(of_text(String::from_utf8_lossy(&chunk).into_owned()));
                    }
                }
            }
        }
        decoded
    }
}

fn of_sse(event: sse::Event) -> Event {
    Event {
        id: (!event.id.is_empty()).then_some(event.id),
        subject: None,
        kind: (event.kind != "message").then_some(event.kind),
        data: Value::String(event.data),
        encoding: None,
    }
}

fn of_text(text: String) -> Event {
    Event {
        id: None,
        subject: None,
        kind: None,
        data: Value::String(text),
        encoding: None,
    }
}

/// The event of a line; nothing for an empty line or object, which are heartbeats.
fn of_line(line: &[u8]) -> Option<Event> {
    let Ok(Value::Object(mut members)) = serde_json::from_slice::<Value>(line) else {
        let text = String::from_utf8_lossy(line);
        return (!text.trim().is_empty()).then(|| of_text(text.into_owned()));
    };
    let mut text = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (id, kind, encoding) = (text("id"), text("type"), text("encoding"));
    let data = members.remove("data")?;
    Some(Event {
        id,
        subject: members.remove("subject"),
        kind,
        data,
        encoding,
    })
}
