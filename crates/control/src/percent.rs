//! Percent-decoding that refuses what is broken, where browsers and libraries let it pass.
//!
//! Must never know what the text is for.

use std::borrow::Cow;
use std::fmt;

/// Why a part of a URL is not text. Its sentence is fit for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PercentError {
    /// A percent sign without two hexadecimal digits.
    Broken {
        /// Its offset in bytes.
        at: usize,
    },
    /// The decoded bytes are not UTF-8.
    NotUtf8 {
        /// The offset of the first bad byte, after decoding.
        at: usize,
    },
}

impl fmt::Display for PercentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { at } => write!(
                f,
                "the percent sign at byte {at} is not followed by two hexadecimal digits; write a \
                 percent sign itself as %25"
            ),
            Self::NotUtf8 { at } => write!(
                f,
                "the percent-decoded text is not UTF-8 at byte {at}; encode its UTF-8 bytes"
            ),
        }
    }
}

/// What `+` means: itself in a path, a space in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    /// A plus sign.
    Itself,
    /// A space, as HTML forms send it.
    Space,
}

/// The text behind a part of a URL.
pub(crate) fn decode(text: &str, plus: Plus) -> Result<Cow<'_, str>, PercentError> {
    let special = |byte: &u8| *byte == b'%' || (*byte == b'+' && plus == Plus::Space);
    let Some(first) = text.bytes().position(|byte| special(&byte)) else {
        return Ok(Cow::Borrowed(text));
    };
    let bytes = text.as_bytes();
    let mut decoded = bytes[..first].to_vec();
    let mut at = first;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digits = bytes
                    .get(at + 1..at + 3)
                    .ok_or(PercentError::Broken { at })?;
                let (high, low) = (hex(digits[0]), hex(digits[1]));
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(PercentError::Broken { at });
                };
                decoded.push(high << 4 | low);
                at += 3;
                continue;
            }
            b'+' if plus == Plus::Space => decoded.push(b' '),
            other => decoded.push(other),
        }
        at += 1;
    }
    String::from_utf8(decoded)
        .map(Cow::Owned)
        .map_err(|error| PercentError::NotUtf8 {
            at: error.utf8_error().valid_up_to(),
        })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_is_right_and_names_what_is_broken() {
        let path = |text| decode(text, Plus::Itself);
        assert_eq!(path("plain"), Ok("plain".into()));
        assert_eq!(path("a%20b+c%2Fd"), Ok("a b+c/d".into()));
        assert_eq!(path("%E2%82%ac"), Ok("€".into()));
        assert_eq!(decode("a+b%2B", Plus::Space), Ok("a b+".into()));
        for (broken, at) in [("%", 0), ("a%4", 1), ("ab%zz", 2), ("%+1", 0), ("%4%41", 0)] {
            assert_eq!(path(broken), Err(PercentError::Broken { at }), "{broken}");
        }
        assert_eq!(path("a%ff"), Err(PercentError::NotUtf8 { at: 1 }));
    }
}
