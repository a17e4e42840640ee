//! Events and notices, decoded from any transport.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::decode::Transport;
use crate::decode::websocket::{self, Piece};
use crate::decode::{Malformed, lines, sse};
use crate::http::Part;

/// An event. Members that its transport does not carry are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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
    /// Returns the payload as a person reads it: text as it is, other JSON written out.
    pub fn text(&self) -> String {
        match &self.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Notice that events may be missing from here on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// `restart`, `expired`, `unknown`, or a reason of a newer server.
    pub reason: String,
    /// The cursor that cannot be continued.
    pub from: Option<String>,
}

impl Reset {
    /// Returns whether the cursor is valid and only too old.
    pub(super) fn is_expired(&self) -> bool {
        self.reason == "expired"
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match &self.reason[..] {
            "restart" => "the server has restarted since",
            "expired" => "the history does not go back that far",
            "unknown" => "the server does not know this place in the stream",
            other => other,
        };
        out.write_str("events may be missing")?;
        if let Some(from) = &self.from {
            write!(out, " after {from}")?;
        }
        write!(out, ": {why}")
    }
}

/// Notice about who is online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// A piece of a snapshot: these ids are online.
    Snapshot {
        /// The ids, each a number or a text.
        online: Vec<Value>,
        /// Whether it is the first piece, which replaces all that was known.
        is_first: bool,
        /// Whether another piece follows.
        has_more: bool,
    },
    /// An id has come online or gone offline.
    Change {
        /// The id.
        id: Value,
        /// Whether the id is online now.
        is_online: bool,
    },
}

impl Presence {
    /// Returns the JSON object of the notice, as in NDJSON.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Snapshot {
                online,
                is_first,
                has_more,
            } => json!({
                "type": "presence",
                "data": {"online": online, "first": is_first, "more": has_more},
            }),
            Self::Change { id, is_online } => json!({
                "type": if *is_online { "online" } else { "offline" },
                "data": {"id": id},
            }),
        }
    }
}

/// A decoded element of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    Event(Event),
    /// An id without an event.
    Cursor(String),
    Reset(Reset),
    /// The server dropped this many events.
    Gap(u64),
    /// Who is online.
    Presence(Presence),
}

/// Result of decoding some bytes.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) items: Vec<Item>,
    pub(super) retry: Option<Duration>,
    /// Bytes to send back: answers to control frames.
    pub(super) answer: Vec<u8>,
    /// Code with which the server has closed the WebSocket.
    pub(super) closed: Option<u16>,
}

/// Decoder of a stream.
pub(super) enum Decoder {
    Sse {
        reader: sse::Reader,
        /// Whether the data of each event is a JSON object with its metadata.
        whole: bool,
    },
    Ndjson(lines::Reader),
    WebSocket {
        reader: websocket::Reader,
        message: Vec<u8>,
    },
    Chunks {
        welcomed: bool,
    },
}

impl Decoder {
    /// Returns a decoder for `transport`, which is not [`Transport::Poll`] or [`Transport::Raw`].
    pub(super) fn new(transport: Transport, whole: bool) -> Self {
        match transport {
            Transport::Sse => Self::Sse {
                reader: sse::Reader::default(),
                whole,
            },
            Transport::Ndjson => Self::Ndjson(lines::Reader::default()),
            Transport::WebSocket => Self::WebSocket {
                reader: websocket::Reader::default(),
                message: Vec::new(),
            },
            Transport::Chunks | Transport::Poll | Transport::Raw => {
                Self::Chunks { welcomed: false }
            }
        }
    }

    /// Decodes `bytes`, and clears them unless they are the beginning of a chunk.
    pub(super) fn read(&mut self, bytes: &mut Vec<u8>, part: Part) -> Result<Decoded, Malformed> {
        let mut decoded = Decoded::default();
        match self {
            Self::Sse { reader, whole } => {
                let mut signals = Vec::new();
                reader.read(bytes, &mut signals);
                bytes.clear();
                for signal in signals {
                    match signal {
                        sse::Signal::Event(event) => decoded.items.push(of_sse(event, *whole)),
                        sse::Signal::Id(id) => decoded.items.push(Item::Cursor(id)),
                        sse::Signal::Retry(millis) => {
                            decoded.retry = Some(Duration::from_millis(millis));
                        }
                        sse::Signal::Comment => {}
                    }
                }
            }
            Self::Ndjson(reader) => {
                reader.read(bytes, |line| decoded.items.extend(line.and_then(of_line)));
                bytes.clear();
            }
            Self::WebSocket { reader, message } => {
                read_messages(reader, message, bytes, &mut decoded)?;
                bytes.clear();
            }
            Self::Chunks { welcomed } => {
                if part == Part::ChunkEnd {
                    let chunk = std::mem::take(bytes);
                    if std::mem::replace(welcomed, true) {
                        let text = String::from_utf8_lossy(&chunk).into_owned();
                        decoded.items.push(Item::Event(of_text(text)));
                    }
                }
            }
        }
        Ok(decoded)
    }
}

/// Decodes frames of a WebSocket. `message` has the message that is not complete yet.
fn read_messages(
    reader: &mut websocket::Reader,
    message: &mut Vec<u8>,
    mut input: &[u8],
    decoded: &mut Decoded,
) -> Result<(), Malformed> {
    while let Some(piece) = reader.next(&mut input)? {
        match piece {
            Piece::Bytes(bytes) if message.len() + bytes.len() > lines::LINE_MAX => {
                return Err(Malformed::MessageTooLong);
            }
            Piece::Bytes(bytes) => message.extend_from_slice(bytes),
            Piece::MessageEnd => {
                decoded.items.extend(of_line(message));
                message.clear();
            }
            Piece::Ping => reader.answer_ping(&mut decoded.answer),
            Piece::Pong => {}
            Piece::Close(code) => {
                reader.answer_close(&mut decoded.answer);
                decoded.closed = Some(code);
                return Ok(());
            }
        }
    }
    Ok(())
}

fn of_sse(event: sse::Event, whole: bool) -> Item {
    let id = event.has_own_id.then_some(event.id);
    if whole
        && let Ok(Value::Object(members)) = serde_json::from_str(&event.data)
        && members.get("id").and_then(Value::as_str) == id.as_deref()
        && let Some(item) = of_members(members)
    {
        return item;
    }
    if id.is_none()
        && let Ok(data) = serde_json::from_str(&event.data)
        && let Some(notice) = notice(&event.kind, &data)
    {
        return notice;
    }
    Item::Event(Event {
        id,
        kind: (event.kind != "message").then_some(event.kind),
        ..of_text(event.data)
    })
}

fn of_text(text: String) -> Event {
    Event {
        data: Value::String(text),
        ..Event::default()
    }
}

/// Decodes a line or a message. Returns `None` for an empty line or object, which are heartbeats.
fn of_line(line: &[u8]) -> Option<Item> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(members)) => of_members(members),
        _ => {
            let text = String::from_utf8_lossy(line);
            (!text.trim().is_empty()).then(|| Item::Event(of_text(text.into_owned())))
        }
    }
}

/// Decodes the elements of a JSON array.
pub(super) fn items_of_array(body: &[u8]) -> Vec<Item> {
    let elements: Vec<Map<String, Value>> = serde_json::from_slice(body).unwrap_or_default();
    elements.into_iter().filter_map(of_members).collect()
}

fn of_members(mut members: Map<String, Value>) -> Option<Item> {
    let mut text = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (id, kind, encoding) = (text("id"), text("type"), text("encoding"));
    let Some(data) = members.remove("data") else {
        return id.map(Item::Cursor);
    };
    let subject = members.remove("subject");
    // Publishers may use the types of notices, too. But a published event has an id and a subject.
    if id.is_none()
        && subject.is_none()
        && let Some(notice) = kind.as_deref().and_then(|kind| notice(kind, &data))
    {
        return Some(notice);
    }
    Some(Item::Event(Event {
        id,
        subject,
        kind,
        data,
        encoding,
    }))
}

/// Decodes a notice of the server about the stream. Returns `None` for other types.
fn notice(kind: &str, data: &Value) -> Option<Item> {
    match kind {
        "reset" => {
            let member = |name: &str| data.get(name)?.as_str().map(str::to_owned);
            Some(Item::Reset(Reset {
                reason: member("reason")?,
                from: member("from"),
            }))
        }
        "gap" => data.get("lost")?.as_u64().map(Item::Gap),
        "presence" => {
            let flag = |name: &str| data.get(name).and_then(Value::as_bool).unwrap_or(false);
            Some(Item::Presence(Presence::Snapshot {
                online: data.get("online")?.as_array()?.clone(),
                is_first: flag("first"),
                has_more: flag("more"),
            }))
        }
        "online" | "offline" => Some(Item::Presence(Presence::Change {
            id: data.get("id")?.clone(),
            is_online: kind == "online",
        })),
        _ => None,
    }
}
