//! Stamps: the JSON members `"t"` and `"n"` that a publisher writes into a payload, by which a
//! receiver measures latency and notices missing events.
//!
//! Owns writing and finding them. Must never read a clock.

use memchr::memchr;

/// Time at which an event was due, and its number among the events of its subject.
///
/// As JSON members: `"t":1700000000000000000,"n":17`. They may stand anywhere in the payload, also
/// within a JSON string (`\"t\":…`), and blanks may follow the colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Time at which the event was due, in nanoseconds since 1970 by the machine's real-time clock.
    /// It does not change when the event is sent late.
    pub due: u64,
    /// Number of the event. The events of a subject count from 1 without a gap.
    pub number: u64,
}

impl Stamp {
    /// Appends `"t":…,"n":…`, without the braces.
    pub fn append(self, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(b"\"t\":");
        out.extend_from_slice(digits.format(self.due).as_bytes());
        out.extend_from_slice(b",\"n\":");
        out.extend_from_slice(digits.format(self.number).as_bytes());
    }

    /// Returns the stamp in a whole payload, if it has one.
    pub fn find(payload: &[u8]) -> Option<Self> {
        let mut finder = Finder::default();
        finder.bytes(payload);
        finder.take()
    }
}

/// Finds the stamp of a payload that arrives in pieces, without keeping its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Finder {
    due: u64,
    number: u64,
    at: At,
    found: Found,
}

/// Position of the next byte with respect to a member of the stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Elsewhere,
    Quote,
    Name(Member),
    Named(Member),
    Value(Member),
    Digits(Member),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Due,
    Number,
}

/// Members that have had a digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Found {
    #[default]
    Nothing,
    One(Member),
    Both,
}

impl Finder {
    /// Reads the next bytes of the payload. The result is that of [`Finder::byte`] for each of
    /// them, but bytes that cannot begin a member are skipped.
    #[inline]
    pub fn bytes(&mut self, mut bytes: &[u8]) {
        loop {
            if self.at == At::Elsewhere {
                let Some(quote) = memchr(b'"', bytes) else {
                    return;
                };
                bytes = &bytes[quote..];
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return;
            };
            self.byte(byte);
            bytes = rest;
        }
    }

    /// Reads the next byte. The first `"t"` and the first `"n"` with a number count.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.at = match (self.at, byte) {
            // The payload may be within a string, where each quote has a backslash before it.
            (at @ (At::Elsewhere | At::Quote | At::Name(_) | At::Named(_)), b'\\') => at,
            (At::Quote, b't') => At::Name(Member::Due),
            (At::Quote, b'n') => At::Name(Member::Number),
            (At::Name(member), b'"') => At::Named(member),
            (_, b'"') => At::Quote,
            (At::Named(member), b':') if !self.has(member) => At::Value(member),
            (At::Value(member), b' ') => At::Value(member),
            (At::Value(member) | At::Digits(member), b'0'..=b'9') => {
                self.digit(member, byte);
                At::Digits(member)
            }
            _ => At::Elsewhere,
        };
    }

    /// Ends the payload and returns its stamp, if it had one. The next byte begins another payload.
    #[inline]
    pub fn take(&mut self) -> Option<Stamp> {
        let stamp = (self.found == Found::Both).then_some(Stamp {
            due: self.due,
            number: self.number,
        });
        *self = Self::default();
        stamp
    }

    fn has(&self, member: Member) -> bool {
        self.found == Found::Both || self.found == Found::One(member)
    }

    fn digit(&mut self, member: Member, digit: u8) {
        let value = match member {
            Member::Due => &mut self.due,
            Member::Number => &mut self.number,
        };
        *value = value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'));
        self.found = match self.found {
            Found::Nothing => Found::One(member),
            Found::One(other) if other != member => Found::Both,
            found => found,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp {
        due: 1_700_000_000_123_456_789,
        number: 17,
    };

    fn find_in_pieces(pieces: &[&[u8]]) -> Option<Stamp> {
        let mut finder = Finder::default();
        pieces.iter().for_each(|piece| finder.bytes(piece));
        finder.take()
    }

    #[test]
    fn a_stamp_is_found_wherever_it_stands() {
        let both = "\"t\":1700000000123456789,\"n\":17";
        for payload in [
            format!("{{{both}}}"),
            format!("{{\"title\":\"n\",\"x\":[1],{both},\"pad\":\"xxx\"}}"),
            format!("{{\"id\":\"9-1\",\"subject\":7,\"data\":{{{both}}}}}"),
            "{\"n\": 17, \"t\": 1700000000123456789}".to_owned(),
            "{\"data\":\"{\\\"t\\\":1700000000123456789,\\\"n\\\":17}\"}".to_owned(),
            format!("{{{both},\"inner\":{{\"t\":1,\"n\":1}}}}"),
        ] {
            assert_eq!(Stamp::find(payload.as_bytes()), Some(STAMP), "{payload}");
        }
    }

    #[test]
    fn half_a_stamp_is_none() {
        for payload in [
            "",
            "hello",
            "{\"t\":1}",
            "{\"n\":1}",
            "{\"t\":\"1\",\"n\":2}",
            "{\"t\":-1,\"n\":2}",
            "{\"tt\":1,\"nn\":2}",
            "{\"t\":,\"n\":2}",
            "t:1,n:2",
        ] {
            assert_eq!(Stamp::find(payload.as_bytes()), None, "{payload}");
        }
    }

    #[test]
    fn a_stamp_is_found_alike_at_every_split() {
        let payload = b"{\"a\":\"t\",\"t\":1700000000123456789, \"n\": 17,\"pad\":\"n\"}";
        for at in 0..=payload.len() {
            let (left, right) = payload.split_at(at);
            assert_eq!(
                find_in_pieces(&[left, right]),
                Some(STAMP),
                "split at byte {at}"
            );
        }
    }

    #[test]
    fn a_taken_stamp_does_not_reach_into_the_next_payload() {
        let mut finder = Finder::default();
        finder.bytes(b"{\"t\":1,\"n\":2");
        assert!(finder.take().is_some());
        finder.bytes(b"34}");
        assert_eq!(finder.take(), None);
    }

    proptest! {
        #[test]
        fn skipping_bytes_finds_the_same_stamp(
            payload in "[\\\\\"tn: 0-9,x]{0,60}",
            at in 0usize..60,
        ) {
            let (mut finder, mut other) = (Finder::default(), Finder::default());
            payload.bytes().for_each(|byte| finder.byte(byte));
            let (left, right) = payload.as_bytes().split_at(at.min(payload.len()));
            other.bytes(left);
            other.bytes(right);
            prop_assert_eq!(finder.take(), other.take());
        }

        #[test]
        fn a_written_stamp_is_found(due: u64, number: u64) {
            let mut payload = b"{".to_vec();
            let stamp = Stamp { due, number };
            stamp.append(&mut payload);
            payload.push(b'}');
            prop_assert_eq!(Stamp::find(&payload), Some(stamp));
        }
    }
}
