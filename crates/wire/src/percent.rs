//! Percent-decoding of parts of a URL (RFC 3986, section 2.1).
//!
//! Strict: a broken escape is an error, where browsers and libraries let it pass. Must never know
//! what the text is for.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;

/// Reason why a part of a URL is not text. Its `Display` is a sentence for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PercentError {
    /// A percent sign is not followed by two hexadecimal digits.
    Broken {
        /// The offset of the sign, in bytes.
        at: usize,
    },
    /// The decoded bytes are not UTF-8.
    NotUtf8 {
        /// The offset of the first invalid byte, in decoded bytes.
        at: usize,
    },
}

impl fmt::Display for PercentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { at } => write!(
                f,
                "the percent sign at byte {at} is not followed by two hexadecimal digits; write a \
                 percent sign as %25"
            ),
            Self::NotUtf8 { at } => write!(
                f,
                "the percent-decoded text is not UTF-8 at byte {at}; encode its UTF-8 bytes"
            ),
        }
    }
}

/// Meaning of `+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plus {
    /// A plus sign, as in a path.
    Literal,
    /// A space, as in a query that was encoded as a form (WHATWG URL, section 5.1).
    Space,
}

/// Decodes a part of a URL. Text without escapes is borrowed.
///
/// # Errors
///
/// When an escape is broken, or the decoded bytes are not UTF-8.
///
/// ```
/// use wire::percent::{Plus, decode};
///
/// assert_eq!(decode("a%20b+c", Plus::Literal).unwrap(), "a b+c");
/// assert_eq!(decode("a%20b+c", Plus::Space).unwrap(), "a b c");
/// assert!(decode("50%", Plus::Literal).is_err());
/// ```
pub fn decode(text: &str, plus: Plus) -> Result<Cow<'_, str>, PercentError> {
    let text = match plus {
        Plus::Space if memchr::memchr(b'+', text.as_bytes()).is_some() => {
            Cow::Owned(text.replace('+', " "))
        }
        _ => Cow::Borrowed(text),
    };
    let mut signs = memchr::memchr_iter(b'%', text.as_bytes()).peekable();
    if signs.peek().is_none() {
        return Ok(text);
    }
    let is_escape = |at: &usize| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if let Some(at) = signs.find(|at| !is_escape(at)) {
        return Err(PercentError::Broken { at });
    }
    String::from_utf8(percent_decode_str(&text).collect())
        .map(Cow::Owned)
        .map_err(|error| PercentError::NotUtf8 {
            at: error.utf8_error().valid_up_to(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_escapes_are_named_and_others_are_decoded() {
        let path = |text| decode(text, Plus::Literal);
        assert_eq!(path("plain"), Ok("plain".into()));
        assert_eq!(path("a%20b+c%2Fd"), Ok("a b+c/d".into()));
        assert_eq!(path("%E2%82%ac"), Ok("€".into()));
        assert_eq!(path("%2541"), Ok("%41".into()));
        assert_eq!(decode("a+b%2B", Plus::Space), Ok("a b+".into()));
        for (broken, at) in [
            ("%", 0),
            ("a%4", 1),
            ("ab%zz", 2),
            ("%+1", 0),
            ("%4%41", 0),
            ("%41%", 3),
        ] {
            assert_eq!(path(broken), Err(PercentError::Broken { at }), "{broken}");
        }
        assert_eq!(path("a%ff"), Err(PercentError::NotUtf8 { at: 1 }));
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        assert!(matches!(
            decode("a+b", Plus::Literal),
            Ok(Cow::Borrowed("a+b"))
        ));
    }
}
