//! Events. An event is built once by its publisher and shared by all workers.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use graph::Id;

/// The longest event type, in bytes: it is repeated in every frame.
pub const EVENT_TYPE_BYTES_MAX: usize = 128;

/// Event as it was published. Shared by the workers until the last has written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The id that the event is about.
    pub subject: Id,
    /// The event's type: `event:` in Server-Sent Events.
    pub event_type: Option<EventType>,
    /// The event's content.
    pub payload: Payload,
}

/// Bytes of an event without its content. Every publish allocates one.
const EVENT_BYTES_MAX: usize = 104;

const _: () = assert!(size_of::<Event>() <= EVENT_BYTES_MAX);

/// Content of an event, in the encoding for clients and possibly in a second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    content_type: ContentType,
    bytes: Bytes,
    native: Option<Bytes>,
}

/// Kind of content of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// One valid JSON value without a line break.
    Json,
    /// Valid UTF-8.
    Text,
    /// Any bytes; text transports carry them as base64.
    Binary,
}

impl Payload {
    /// Makes a payload of one valid JSON value without a line break.
    pub const fn json(bytes: Bytes) -> Self {
        Self::new(ContentType::Json, bytes)
    }

    /// Makes a payload of valid UTF-8.
    pub const fn text(bytes: Bytes) -> Self {
        Self::new(ContentType::Text, bytes)
    }

    /// Makes a payload of any bytes.
    pub const fn binary(bytes: Bytes) -> Self {
        Self::new(ContentType::Binary, bytes)
    }

    pub(crate) const fn new(content_type: ContentType, bytes: Bytes) -> Self {
        Self {
            content_type,
            bytes,
            native: None,
        }
    }

    /// Adds a second encoding of the same content, which is opaque to all crates but the one that
    /// made it. Sessions of that crate receive it; all others receive [`bytes`](Self::bytes).
    #[must_use]
    pub fn with_native(mut self, native: Bytes) -> Self {
        self.native = Some(native);
        self
    }

    /// Returns the kind of content.
    pub const fn content_type(&self) -> ContentType {
        self.content_type
    }

    /// Returns the content in the encoding for clients.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the second encoding of the content, if there is one.
    pub const fn native(&self) -> Option<&Bytes> {
        self.native.as_ref()
    }
}

/// Type of an event: 1 to [`EVENT_TYPE_BYTES_MAX`] bytes without control characters, as a line
/// break would end the field on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType(Box<str>);

/// Reason why a text is not an event type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventTypeError {
    /// It has no bytes.
    Empty,
    /// It has more than [`EVENT_TYPE_BYTES_MAX`] bytes.
    TooLong,
    /// It has a control character, a line break for instance.
    ControlCharacter,
}

impl EventType {
    /// Returns the type as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventType {
    type Err = EventTypeError;

    fn from_str(text: &str) -> Result<Self, EventTypeError> {
        match text {
            "" => Err(EventTypeError::Empty),
            _ if text.len() > EVENT_TYPE_BYTES_MAX => Err(EventTypeError::TooLong),
            _ if text.contains(char::is_control) => Err(EventTypeError::ControlCharacter),
            _ => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for EventTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the event type is empty; set one, or leave it out"),
            Self::TooLong => write!(
                f,
                "the event type is longer than {EVENT_TYPE_BYTES_MAX} bytes"
            ),
            Self::ControlCharacter => f.write_str(
                "the event type contains a control character, for example a line break; remove it",
            ),
        }
    }
}

impl std::error::Error for EventTypeError {}

/// Id of an event: the run of the server, and the event's position in it. Events of one
/// subject have ascending numbers in the order in which all sessions receive them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId<'a> {
    /// Name of the run of the server that numbered the event.
    pub epoch: &'a str,
    /// Sequence number within the epoch, ascending from 1.
    pub position: u64,
}

impl fmt::Display for EventId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.position)
    }
}

/// Numbers of ids that an event is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audience {
    /// Ids: the subject's subscribers, and the subject itself.
    pub subscribers: u64,
    /// Those of the ids that have a session.
    pub online: u64,
}

impl Audience {
    /// Makes the audience of an event that is for its subject alone.
    pub(crate) const fn of_one(online: bool) -> Self {
        Self {
            subscribers: 1,
            online: online as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_line_without_controls() {
        for kind in ["note", "é x:y", &"k".repeat(EVENT_TYPE_BYTES_MAX)] {
            assert_eq!(kind.parse::<EventType>().unwrap().as_str(), kind);
        }
        for kind in ["a\nb", "a\rb", "\0", "a\u{85}"] {
            assert_eq!(
                kind.parse::<EventType>(),
                Err(EventTypeError::ControlCharacter)
            );
        }
        assert_eq!("".parse::<EventType>(), Err(EventTypeError::Empty));
        let long = "k".repeat(EVENT_TYPE_BYTES_MAX + 1);
        assert_eq!(long.parse::<EventType>(), Err(EventTypeError::TooLong));
    }
}
