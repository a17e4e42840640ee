//! Cursors: positions in the history, stored by clients.
//!
//! Owns the text form of a cursor. For a client it is opaque: the id of the last event that the
//! client has received.

use std::fmt;

/// Cursor of a client: the position up to which it has received the events of one history.
///
/// The text is `<epoch>-<position>`, or `<epoch>-<position>-<complete>` if the client may not have
/// received all events between `complete` and `position`.
///
/// ```
/// use history::Cursor;
///
/// let cursor: Cursor<'_> = "k3v9-101-99".try_into()?;
/// assert_eq!((cursor.epoch, cursor.position, cursor.complete), ("k3v9", 101, 99));
/// assert_eq!(cursor.to_string(), "k3v9-101-99");
/// assert_eq!(Cursor::complete("k3v9", 101).to_string(), "k3v9-101");
/// # Ok::<(), history::CursorError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor<'a> {
    /// Epoch of the history. Positions of different histories cannot be compared.
    pub epoch: &'a str,
    /// Position of the last event that the client received.
    pub position: u64,
    /// Position up to which the client has received all events; at most `position`.
    pub complete: u64,
}

impl<'a> Cursor<'a> {
    /// Returns the cursor of a client that has received all events up to `position`.
    pub const fn complete(epoch: &'a str, position: u64) -> Self {
        Self {
            epoch,
            position,
            complete: position,
        }
    }
}

/// Error: a text is not a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cursor is not the id of an event of this server; use the last id that was received, \
     unchanged"
)]
pub struct CursorError;

impl<'a> TryFrom<&'a str> for Cursor<'a> {
    type Error = CursorError;

    fn try_from(text: &'a str) -> Result<Self, CursorError> {
        let mut parts = text.split('-');
        let epoch = parts.next().filter(|epoch| !epoch.is_empty());
        let position = parts.next().and_then(number);
        let (Some(epoch), Some(position)) = (epoch, position) else {
            return Err(CursorError);
        };
        let complete = match parts.next() {
            None => position,
            Some(text) => number(text).ok_or(CursorError)?,
        };
        if parts.next().is_some() || complete > position {
            return Err(CursorError);
        }
        Ok(Self {
            epoch,
            position,
            complete,
        })
    }
}

impl fmt::Display for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            epoch,
            position,
            complete,
        } = self;
        write!(f, "{epoch}-{position}")?;
        if complete != position {
            write!(f, "-{complete}")?;
        }
        Ok(())
    }
}

/// Parses decimal digits without a sign, which `str::parse` would accept.
fn number(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn malformed_cursors_are_refused() {
        for text in [
            "",
            "-",
            "a",
            "a-",
            "-1",
            "a-b",
            "a-1-",
            "a-1-b",
            "a-1-2",
            "a-2-1-0",
            "a-+1",
            "a--1",
            "a- 1",
            "a-1 ",
            "a-18446744073709551616",
            "a-2-+1",
            "a-١",
        ] {
            assert_eq!(Cursor::try_from(text), Err(CursorError), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_is_parsed_from_its_text(
            epoch in "[a-z0-9]{1,12}", complete: u64, beyond: u64,
        ) {
            let position = complete.saturating_add(beyond);
            let cursor = Cursor { epoch: &epoch, position, complete };
            let text = cursor.to_string();
            prop_assert_eq!(Cursor::try_from(text.as_str()), Ok(cursor));
        }

        #[test]
        fn the_parser_does_not_panic_on_any_text(text: String) {
            if let Ok(cursor) = Cursor::try_from(text.as_str()) {
                prop_assert!(cursor.complete <= cursor.position);
            }
        }
    }
}
