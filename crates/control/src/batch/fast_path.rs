//! The line that nearly all batches are made of, read without a general parser: an object of
//! `subject`, `data` and perhaps `type`, without escapes but in JSON data.
//!
//! Must never take a line that [`batch::line`](crate::batch::line) would refuse, nor read it as
//! another event; whatever is out of the ordinary is left to it.

use std::str::from_utf8;

use graph::Id;
use memchr::memchr2;
use router::{Event, EventType, Payload};
use serde_json::value::RawValue;
use wire::json::{LEVELS_MAX, check};

use crate::items::Item;
use crate::json::on_one_line;

/// Returns the event of an ordinary line.
pub(super) fn event(item: &Item<'_>) -> Option<Event> {
    let mut text = Text { rest: item.text };
    let (mut subject, mut payload, mut event_type) = (None, None, None);
    text.take(b'{')?;
    loop {
        match text.string()? {
            b"subject" if subject.is_none() => {
                text.take(b':')?;
                subject = Some(text.id()?);
            }
            b"data" if payload.is_none() => {
                text.take(b':')?;
                payload = Some(text.payload(item)?);
            }
            b"type" if event_type.is_none() => {
                text.take(b':')?;
                event_type = Some(from_utf8(text.string()?).ok()?.parse::<EventType>().ok()?);
            }
            _ => return None,
        }
        if text.take(b',').is_none() {
            break;
        }
    }
    text.take(b'}')?;
    match (text.rest, subject, payload) {
        ([], Some(subject), Some(payload)) => Some(Event {
            subject,
            event_type,
            payload,
        }),
        _ => None,
    }
}

/// What is not yet read of a line.
struct Text<'a> {
    rest: &'a [u8],
}

impl<'a> Text<'a> {
    /// Takes a character and the white space around it.
    fn take(&mut self, wanted: u8) -> Option<()> {
        self.skip_blank();
        let (&first, rest) = self.rest.split_first()?;
        if first != wanted {
            return None;
        }
        self.rest = rest;
        self.skip_blank();
        Some(())
    }

    fn skip_blank(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes a string without escapes: what is between the quotes, which may yet not be UTF-8.
    fn string(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.strip_prefix(b"\"")?;
        let length = memchr2(b'"', b'\\', rest)?;
        let (text, rest) = rest.split_at(length);
        self.rest = rest.strip_prefix(b"\"")?;
        // JSON wants control characters escaped. All bytes are looked at, as that is done many at a
        // time.
        let least = text.iter().copied().fold(u8::MAX, u8::min);
        (least >= b' ').then_some(text)
    }

    fn id(&mut self) -> Option<Id> {
        if self.rest.first() == Some(&b'"') {
            return Id::parse(from_utf8(self.string()?).ok()?).ok();
        }
        let mut integer = 0;
        let mut digits = 0;
        while let [digit @ b'0'..=b'9', rest @ ..] = self.rest {
            // Sixteen digits are more than an id has and less than an integer holds.
            if digits == 16 || (digits == 1 && integer == 0) {
                return None;
            }
            integer = integer * 10 + u64::from(digit - b'0');
            digits += 1;
            self.rest = rest;
        }
        match digits {
            0 => None,
            _ => Id::integer(integer).ok(),
        }
    }

    fn payload(&mut self, item: &Item<'_>) -> Option<Payload> {
        if self.rest.first() == Some(&b'"') {
            let text = self.string()?;
            from_utf8(text).ok()?;
            return Some(Payload::text(item.share(text)));
        }
        let mut values = serde_json::Deserializer::from_slice(self.rest).into_iter::<&RawValue>();
        let value = values.next()?.ok()?.get();
        check(value.as_bytes(), LEVELS_MAX).ok()?;
        self.rest = &self.rest[values.byte_offset()..];
        Some(Payload::json(on_one_line(value, |value| {
            item.share(value.as_bytes())
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::line;
    use crate::items::{Items, Shape};
    use bytes::Bytes;

    /// Returns what both readers make of a line.
    fn both(text: &[u8]) -> (Option<Event>, Option<Event>) {
        let mut items = Items::new(Shape::Lines, 1000);
        items.feed(Bytes::copy_from_slice(text));
        items.end();
        match items.next() {
            Some(Ok(item)) => (event(&item), line::unusual(&item).ok()),
            _ => (None, None),
        }
    }

    const ORDINARY: &[&str] = &[
        r#"{"subject":123,"data":"hello"}"#,
        r#"{"data":{"a":[1.50,"]}\"",null]},"subject":"rj"}"#,
        r#" { "type" : "t" , "subject" : "é" , "data" : "" } "#,
        r#"{"subject":0,"data":-1e3}"#,
        r#"{"subject":9007199254740991,"data":true}"#,
        r#"{"subject":"12","data":null,"type":"a b"}"#,
    ];

    #[test]
    fn ordinary_lines_are_read_as_the_general_reader_does() {
        for text in ORDINARY {
            let (quick, general) = both(text.as_bytes());
            assert!(quick.is_some(), "{text}");
            assert_eq!(quick, general, "{text}");
        }
    }

    /// The rest of what the general reader takes is left to it, and what it refuses is refused.
    #[test]
    fn no_line_is_read_as_another_event() {
        let pieces: &[&[u8]] = &[
            b"\"",
            b"\\",
            b"{",
            b"}",
            b",",
            b":",
            b"0",
            b"9007199254740992",
            b"-",
            b"\t",
            b"\x01",
            b"\x7f",
            b"\xff",
            "é".as_bytes(),
            b"\\u0041",
            b"\"data\":1,",
            b"\"subject\":1,",
            b" ",
            b"\"x\":1,",
            b"null",
            b"[",
            b"]",
            b"\"encoding\":\"base64\",",
            b"",
        ];
        // The same lines in each run.
        let mut dice = simulated::Dice::new(1);
        let mut random = |below: usize| dice.roll(below);
        let (mut alike, mut left, mut refused) = (0, 0, 0);
        for round in 0..200_000 {
            let mut text = ORDINARY[round % ORDINARY.len()].as_bytes().to_vec();
            for _ in 0..=random(2) {
                let at = random(text.len() + 1);
                let to = (at + random(4)).min(text.len());
                text.splice(at..to, pieces[random(pieces.len())].iter().copied());
            }
            match both(&text) {
                (None, None) => refused += 1,
                (None, Some(_)) => left += 1,
                (quick, general) => {
                    assert_eq!(quick, general, "{}", text.escape_ascii());
                    alike += 1;
                }
            }
        }
        assert!(
            alike > 1000 && left > 100 && refused > 1000,
            "{alike} {left} {refused}"
        );
    }
}
