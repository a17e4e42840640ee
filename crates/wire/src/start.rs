//! Where a stream starts: what a client says about the events that it has.
//!
//! Owns the names under which clients say it, and which of them counts. Must never judge a cursor:
//! what does not parse as one is for the history to answer.

use std::borrow::Cow;

use crate::head::Request;
use crate::target;

/// Most events of each subject that a client may ask for with `rewind`.
pub const REWIND_MAX: u8 = 100;

/// Names of a cursor in a query, in the order in which they count. The polyfills of `EventSource`,
/// which cannot set a header, use the first three.
pub const CURSOR_NAMES: [&str; 4] = ["last_event_id", "lastEventId", "lastEventID", "cursor"];

/// The word that stands for a cursor before the oldest event that is kept.
const EARLIEST: &str = "earliest";

/// The word, as the `cursor` of a query, for a cursor that comes in a message of the client.
const IN_MESSAGE: &str = "message";

/// Start of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start<'a> {
    /// The next event that is published.
    Live,
    /// The event after the cursor of this text, which may be no cursor at all.
    After(Cow<'a, str>),
    /// The oldest event that is kept.
    Earliest,
    /// This many of the latest events of each subject, at most [`REWIND_MAX`].
    Rewind(u8),
    /// Where the client says in a message, which only a WebSocket can.
    InMessage,
}

/// A `rewind` that is not a number up to [`REWIND_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewindError;

impl RewindError {
    /// Returns a sentence for the client: what was wrong and what is needed.
    pub const fn reason(self) -> &'static str {
        "rewind is how many of the latest events of each subject to send first: a number from 0 to \
         100"
    }
}

impl<'a> Start<'a> {
    /// Returns what a request asks for. `Last-Event-ID` counts first, since an `EventSource` that
    /// reconnects sends it to the same URL; then the first cursor in the query, then `rewind`. A
    /// field or a value without text counts as absent: an `EventSource` without an id has none.
    ///
    /// # Errors
    ///
    /// When `rewind` counts and is not a number up to [`REWIND_MAX`].
    ///
    /// ```
    /// use wire::start::Start;
    ///
    /// let head = b"GET /events/rj?cursor=k3v9-7&rewind=3 HTTP/1.1\r\nHost: h\r\n\r\n";
    /// let request = wire::head::parse(head).unwrap().expect("a complete head");
    /// assert_eq!(Start::of(&request), Ok(Start::After("k3v9-7".into())));
    /// ```
    pub fn of(request: &Request<'a>) -> Result<Self, RewindError> {
        if let Some(text) = request.last_event_id.filter(|text| !text.is_empty()) {
            return Ok(Self::after(Cow::Borrowed(text)));
        }
        for name in CURSOR_NAMES {
            match target::query_value(request.query, name) {
                Ok(Some(text)) if name == "cursor" && text == IN_MESSAGE => {
                    return Ok(Self::InMessage);
                }
                Ok(Some(text)) if !text.is_empty() => return Ok(Self::after(text)),
                Ok(_) => {}
                // A broken escape is no cursor.
                Err(_) => return Ok(Self::After(Cow::Borrowed(""))),
            }
        }
        match target::query_value(request.query, "rewind") {
            Ok(None) => Ok(Self::Live),
            Ok(Some(text)) => match rewind(&text) {
                Some(0) => Ok(Self::Live),
                Some(count) => Ok(Self::Rewind(count)),
                None => Err(RewindError),
            },
            Err(_) => Err(RewindError),
        }
    }

    /// Returns what the text of a cursor asks for.
    pub fn at(cursor: &'a str) -> Self {
        match cursor.is_empty() {
            true => Self::Live,
            false => Self::after(Cow::Borrowed(cursor)),
        }
    }

    fn after(text: Cow<'a, str>) -> Self {
        match text == EARLIEST {
            true => Self::Earliest,
            false => Self::After(text),
        }
    }
}

/// Parses decimal digits without a sign, which `str::parse` would accept.
fn rewind(text: &str) -> Option<u8> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|&count| is_number && count <= REWIND_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(query: &str, fields: &str) -> Result<Start<'static>, RewindError> {
        let head = format!("GET /events/a?{query} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let request = crate::head::parse(head.as_bytes())
            .unwrap()
            .expect("a head");
        Start::of(&request).map(|start| match start {
            Start::Live => Start::Live,
            Start::After(text) => Start::After(text.into_owned().into()),
            Start::Earliest => Start::Earliest,
            Start::Rewind(count) => Start::Rewind(count),
            Start::InMessage => Start::InMessage,
        })
    }

    fn after(text: &str) -> Result<Start<'static>, RewindError> {
        Ok(Start::After(text.to_owned().into()))
    }

    #[test]
    fn a_client_that_says_nothing_starts_live() {
        for query in [
            "",
            "id=b",
            "cursor=",
            "rewind=0",
            "cursor=&rewind=0",
            "last_event_id",
        ] {
            assert_eq!(start(query, ""), Ok(Start::Live), "{query}");
        }
        assert_eq!(start("", "Last-Event-ID: \r\n"), Ok(Start::Live));
    }

    #[test]
    fn every_name_of_a_cursor_counts() {
        for name in CURSOR_NAMES {
            assert_eq!(start(&format!("{name}=e-7"), ""), after("e-7"));
            assert_eq!(
                start(&format!("x=y&{name}=e%2D7&rewind=z"), ""),
                after("e-7")
            );
            assert_eq!(start(&format!("{name}=earliest"), ""), Ok(Start::Earliest));
        }
        assert_eq!(start("", "last-event-id: e-7-6\r\n"), after("e-7-6"));
        assert_eq!(
            start("", "Last-Event-ID: earliest\r\n"),
            Ok(Start::Earliest)
        );
    }

    #[test]
    fn a_cursor_that_comes_in_a_message_is_announced_in_the_query_only() {
        assert_eq!(start("cursor=message", ""), Ok(Start::InMessage));
        assert_eq!(start("last_event_id=message", ""), after("message"));
        assert_eq!(start("", "Last-Event-ID: message\r\n"), after("message"));
        assert_eq!(Start::at("message"), Start::After("message".into()));
        assert_eq!(Start::at("earliest"), Start::Earliest);
        assert_eq!(Start::at(""), Start::Live);
    }

    /// The URL of an `EventSource` stays the same over reconnects: a cursor in it is the oldest.
    #[test]
    fn the_field_counts_before_the_query() {
        let field = "Last-Event-ID: e-9\r\n";
        assert_eq!(start("cursor=e-7", field), after("e-9"));
        assert_eq!(start("rewind=5", field), after("e-9"));
        assert_eq!(start("cursor=e-7&last_event_id=e-8", ""), after("e-8"));
        assert_eq!(
            start("rewind=5", "Last-Event-ID:\r\n"),
            Ok(Start::Rewind(5))
        );
    }

    #[test]
    fn what_is_no_cursor_is_kept_for_the_history_to_answer() {
        assert_eq!(start("cursor=%ff", ""), after(""));
        assert_eq!(start("cursor=%zz", ""), after(""));
        assert_eq!(start("cursor=garbage%00", ""), after("garbage\0"));
        assert_eq!(start("", "Last-Event-ID: 0\r\n"), after("0"));
    }

    #[test]
    fn rewind_is_a_number_up_to_a_hundred() {
        assert_eq!(start("rewind=1", ""), Ok(Start::Rewind(1)));
        assert_eq!(start("rewind=100", ""), Ok(Start::Rewind(REWIND_MAX)));
        for text in [
            "101",
            "256",
            "-1",
            "+1",
            "",
            "a",
            "1.0",
            "%20",
            "%zz",
            "99999999999",
        ] {
            assert_eq!(
                start(&format!("rewind={text}"), ""),
                Err(RewindError),
                "{text}"
            );
        }
    }
}
