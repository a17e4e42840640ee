//! Payload of events: a template whose placeholders are filled in for each event. Request paths use
//! the same placeholders.
//!
//! Filling in a template must not allocate.

use client::stamp::Stamp;
use machine::failure::{Failure, Outcome};

/// Smallest payload with a pad, in bytes: a stamp whose number has ten digits, and an empty pad.
const SIZE_MIN: usize = 49;

/// Largest payload in bytes.
const SIZE_MAX: usize = 1 << 30;

/// One event to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// Subject.
    pub(super) id: u32,
    /// Number among the events about this id, from 1.
    pub(super) number: u32,
    /// Due time, in nanoseconds since the due time of the first event.
    pub(super) due: u64,
}

/// Text with the placeholders `{t}` (due time), `{n}` (number) and `{id}` (subject). Other braces
/// are literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    /// Due time, in nanoseconds since the epoch.
    Due,
    Number,
    Id,
    /// `"t":…,"n":…`
    Stamp,
    /// As many `x` as bring the whole to `size` bytes, given that `after` bytes follow.
    Pad {
        size: usize,
        after: usize,
    },
}

/// Payload of all events of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    template: Template,
    /// Whether it is JSON. Otherwise it is text.
    pub json: bool,
}

impl Payload {
    /// Creates a payload that is only a stamp: `{"t":…,"n":…}`.
    pub fn stamp() -> Self {
        Self::json(vec![text("{"), Piece::Stamp, text("}")])
    }

    /// Creates a stamp with a pad, exactly `size` bytes long.
    ///
    /// # Errors
    ///
    /// If `size` is not from 49 to 2^30.
    pub fn sized(size: usize) -> Outcome<Self> {
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            return Err(Failure::new(format!(
                "a payload of {size} bytes is too small for its stamp, or too large: give a \
                 --size from {SIZE_MIN} to {SIZE_MAX}"
            )));
        }
        let after = 2;
        Ok(Self::json(vec![
            text("{"),
            Piece::Stamp,
            text(",\"pad\":\""),
            Piece::Pad { size, after },
            text("\"}"),
        ]))
    }

    /// Creates a payload from a template. It is JSON if the filled-in template parses as JSON, else
    /// text.
    pub fn template(template: &str) -> Self {
        let mut sample = Vec::new();
        let event = Event {
            id: 1,
            number: 1,
            due: 1,
        };
        Template::new(template).fill(event, 0, &mut sample);
        let json = serde_json::from_slice::<serde::de::IgnoredAny>(&sample).is_ok();
        // In JSON, line breaks are only whitespace, as strings cannot contain them; a batch needs
        // one line for each event.
        let template = match json {
            true => Template::new(&template.replace(['\n', '\r'], " ")),
            false => Template::new(template),
        };
        Self { template, json }
    }

    fn json(pieces: Vec<Piece>) -> Self {
        Self {
            template: Template(pieces),
            json: true,
        }
    }

    /// Returns the payload as a JSON value, for a line of a batch.
    pub(super) fn as_json(&self) -> Template {
        if self.json {
            return self.template.clone();
        }
        let mut pieces = vec![text("\"")];
        pieces.extend(self.template.0.iter().map(|piece| match piece {
            Piece::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                let quoted = serde_json::to_string(&text).expect("a string is JSON");
                Piece::Text(quoted.as_bytes()[1..quoted.len() - 1].to_vec())
            }
            other => other.clone(),
        }));
        pieces.push(text("\""));
        Template(pieces)
    }

    /// Returns the payload as it is.
    pub(super) fn plain(&self) -> &Template {
        &self.template
    }
}

impl Template {
    /// Parses the placeholders of a text.
    pub fn new(template: &str) -> Self {
        const PLACEHOLDERS: [(&str, Piece); 3] = [
            ("{t}", Piece::Due),
            ("{n}", Piece::Number),
            ("{id}", Piece::Id),
        ];
        let (mut pieces, mut rest, mut plain) = (Vec::new(), template, String::new());
        'text: while let Some(character) = rest.chars().next() {
            for (place, piece) in PLACEHOLDERS {
                if let Some(after) = rest.strip_prefix(place) {
                    pieces.push(text(&std::mem::take(&mut plain)));
                    pieces.push(piece);
                    rest = after;
                    continue 'text;
                }
            }
            plain.push(character);
            rest = &rest[character.len_utf8()..];
        }
        pieces.push(text(&plain));
        pieces.retain(|piece| !matches!(piece, Piece::Text(bytes) if bytes.is_empty()));
        Self(pieces)
    }

    /// Appends the text for `event`. `began` is the due time of the first event, in nanoseconds
    /// since the epoch.
    pub(super) fn fill(&self, event: Event, began: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let mut digits = itoa::Buffer::new();
        let due = began + event.due;
        for piece in &self.0 {
            match piece {
                Piece::Text(bytes) => out.extend_from_slice(bytes),
                Piece::Due => out.extend_from_slice(digits.format(due).as_bytes()),
                Piece::Number => out.extend_from_slice(digits.format(event.number).as_bytes()),
                Piece::Id => out.extend_from_slice(digits.format(event.id).as_bytes()),
                Piece::Stamp => Stamp {
                    due,
                    number: event.number.into(),
                }
                .append(out),
                Piece::Pad { size, after } => {
                    out.resize(out.len().max((start + size).saturating_sub(*after)), b'x')
                }
            }
        }
    }
}

fn text(text: &str) -> Piece {
    Piece::Text(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: u64 = 1_700_000_000_000_000_000;

    fn filled(template: &Template, number: u32) -> String {
        let mut out = b"before".to_vec();
        let event = Event {
            id: 42,
            number,
            due: 5,
        };
        template.fill(event, BEGAN, &mut out);
        String::from_utf8(out).unwrap().split_off("before".len())
    }

    #[test]
    fn every_payload_has_a_stamp_and_its_size() {
        let stamp = |number| Stamp {
            due: BEGAN + 5,
            number,
        };
        for number in [1, u32::MAX] {
            for size in [SIZE_MIN, 100, 65_536] {
                let payload = filled(Payload::sized(size).unwrap().plain(), number);
                assert_eq!(payload.len(), size);
                assert_eq!(Stamp::find(payload.as_bytes()), Some(stamp(number.into())));
                serde_json::from_str::<serde_json::Value>(&payload).unwrap();
            }
        }
        let payload = filled(Payload::stamp().plain(), 3);
        assert_eq!(payload, "{\"t\":1700000000000000005,\"n\":3}");
        assert!(Payload::sized(SIZE_MIN - 1).is_err());
    }

    #[test]
    fn only_placeholders_are_filled_in() {
        let payload = Payload::template("{\"t\":{t},\n\"n\":{n},\"of\":{\"id\":{id}}}");
        assert!(payload.json);
        let expected = "{\"t\":1700000000000000005, \"n\":3,\"of\":{\"id\":42}}";
        assert_eq!(filled(payload.plain(), 3), expected);
        assert_eq!(filled(&payload.as_json(), 3), expected);
    }

    #[test]
    fn text_becomes_a_string_in_a_batch() {
        let payload = Payload::template("no \"{n}\"\nfor {id}{é}");
        assert!(!payload.json);
        assert_eq!(filled(payload.plain(), 3), "no \"3\"\nfor 42{é}");
        let line = filled(&payload.as_json(), 3);
        assert_eq!(
            serde_json::from_str::<String>(&line).unwrap(),
            "no \"3\"\nfor 42{é}"
        );
    }
}
