//! JSON: strings, and values that every reader can read.
//!
//! Owns escaping (RFC 8259, section 7), and the limits of a value beyond its grammar. Must never
//! parse JSON: the caller has validated it.

use core::fmt;

use memchr::{memchr, memchr2};

/// Most levels of arrays and objects within each other in the JSON of an event. Readers that call
/// themselves for each level have limits of this order; those without one run out of stack.
pub const LEVELS_MAX: usize = 128;

/// Reason why a valid JSON value is one that some readers refuse, or read as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueError {
    /// Arrays and objects are nested too deep.
    TooDeep {
        /// How many levels are allowed.
        levels_max: usize,
    },
    /// A string has an escape of one half of a surrogate pair without the other (RFC 8259, section
    /// 8.2). It is no Unicode text: some readers refuse it, others replace it.
    LoneSurrogate,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep { levels_max } => write!(
                f,
                "its arrays and objects are nested deeper than {levels_max} levels, which not \
                 every reader can read; send a flatter value, or send it as text"
            ),
            Self::LoneSurrogate => f.write_str(
                "a string has a \\u escape of a lone surrogate, which is no character; send both \
                 halves of the pair, or \\ufffd in its place",
            ),
        }
    }
}

/// Checks a valid JSON value that may have at most `levels_max` levels.
///
/// # Errors
///
/// When some readers could not read it.
///
/// ```
/// use wire::json::{LEVELS_MAX, ValueError, check};
///
/// assert_eq!(check(br#"["\ud83d\ude00"]"#, LEVELS_MAX), Ok(()));
/// assert_eq!(check(br#"["\ud83d"]"#, LEVELS_MAX), Err(ValueError::LoneSurrogate));
/// ```
pub fn check(value: &[u8], levels_max: usize) -> Result<(), ValueError> {
    // Most values are too short to be deep and have no escapes: they are looked at once, many bytes
    // at a time.
    if value.len() <= 2 * levels_max && memchr(b'\\', value).is_none() {
        return Ok(());
    }
    let (mut levels, mut at) = (0_usize, 0);
    while let Some(byte) = value.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' if levels == levels_max => return Err(ValueError::TooDeep { levels_max }),
            b'[' | b'{' => levels += 1,
            b']' | b'}' => levels = levels.saturating_sub(1),
            b'"' => at = end_of_string(value, at)?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns where a string ends that begins behind the quote before `at`.
fn end_of_string(value: &[u8], mut at: usize) -> Result<usize, ValueError> {
    loop {
        let rest = value.get(at..).unwrap_or_default();
        let Some(found) = memchr2(b'"', b'\\', rest) else {
            return Ok(value.len());
        };
        at += found;
        if value[at] == b'"' {
            return Ok(at + 1);
        }
        at += match code_unit(value, at) {
            Some(0xd800..=0xdbff) => match code_unit(value, at + 6) {
                Some(0xdc00..=0xdfff) => 12,
                _ => return Err(ValueError::LoneSurrogate),
            },
            Some(0xdc00..=0xdfff) => return Err(ValueError::LoneSurrogate),
            Some(_) => 6,
            None => 2,
        };
    }
}

/// Returns the UTF-16 code unit of the escape `\uXXXX` at `at`, if there is one.
fn code_unit(value: &[u8], at: usize) -> Option<u16> {
    let digits = value.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Escape of each byte: 0 for none, `u` for `\u00XX`, any other for a backslash and itself.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends text, which is valid UTF-8, as a JSON string, quotes included.
pub(crate) fn push_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[plain..at]);
        plain = at + 1;
        if escape == b'u' {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        } else {
            out.extend_from_slice(&[b'\\', escape]);
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

/// Appends a valid JSON value on one line. A raw line break in valid JSON can only be white space
/// between tokens (RFC 8259, section 2), so a space says the same.
pub(crate) fn push_value_on_one_line(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value);
    crate::event::blank_line_breaks(&mut out[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize, open: &str, inner: &str, close: &str) -> String {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    }

    #[test]
    fn values_of_128_levels_are_right_and_of_129_too_deep() {
        let too_deep = Err(ValueError::TooDeep {
            levels_max: LEVELS_MAX,
        });
        for (open, inner, close) in [
            ("[", "", "]"),
            ("{\"a\":", "1", "}"),
            ("[0,", "\"]]]]\"", ",[]]"),
            (" [\n", "\"\\\"[[[\"", "] "),
        ] {
            // `[0,` and `,[]]` have a level beside those counted.
            let inside = usize::from(close == ",[]]");
            let most = nested(LEVELS_MAX - inside, open, inner, close);
            assert_eq!(check(most.as_bytes(), LEVELS_MAX), Ok(()), "{most}");
            let more = nested(LEVELS_MAX + 1 - inside, open, inner, close);
            assert_eq!(check(more.as_bytes(), LEVELS_MAX), too_deep, "{more}");
        }
        // Wide is not deep.
        let wide = format!("[{}[]]", "[[]],".repeat(10_000));
        assert_eq!(check(wide.as_bytes(), LEVELS_MAX), Ok(()));
        // What stands in a string is no level.
        let text = format!("\"{}\"", "[".repeat(1000));
        assert_eq!(check(text.as_bytes(), LEVELS_MAX), Ok(()));
    }

    #[test]
    fn a_surrogate_needs_its_other_half() {
        for text in [
            r#""\ud83d\ude00""#,
            r#""\uD83D\uDE00""#,
            r#""\\ud83d""#,
            r#""\\\\ud83d""#,
            r#""\ud7ff\ue000""#,
            r#"{"\ud83d\ude00":["\ud83d\ude00\ud83d\ude00"]}"#,
        ] {
            assert_eq!(check(text.as_bytes(), LEVELS_MAX), Ok(()), "{text}");
            assert!(
                serde_json::from_str::<serde_json::Value>(text).is_ok(),
                "{text}"
            );
        }
        for text in [
            r#""\ud83d""#,
            r#""\ude00""#,
            r#""\ude00\ud83d""#,
            r#""\ud83d\ud83d""#,
            r#""\ud83dx\ude00""#,
            r#""\ud83d\n\ude00""#,
            r#""\\\ud83d""#,
            r#"{"\ud83d":1}"#,
            r#"[1,{"a":"x\uDC00"}]"#,
        ] {
            let found = check(text.as_bytes(), LEVELS_MAX);
            assert_eq!(found, Err(ValueError::LoneSurrogate), "{text}");
            assert!(
                serde_json::from_str::<serde_json::Value>(text).is_err(),
                "{text}"
            );
        }
    }
}
