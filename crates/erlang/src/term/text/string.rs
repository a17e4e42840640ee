//! Text in quotes, and the definition of printable text.

use std::borrow::Cow;
use std::fmt::Write;

use super::super::view::{List, Term};

/// Whether Erlang considers a character printable, with `+pc unicode`.
pub(super) const fn is_printable(character: char) -> bool {
    matches!(
        character,
        '\x08'..='\r' | '\x1b' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
    ) || character as u32 > 0xffff
}

/// Returns the text of a proper list whose elements are all characters.
pub(super) fn characters(list: List<'_>) -> Option<String> {
    let text = list
        .elements()
        .map(|element| match element.view() {
            Term::Integer(number) => char::from_u32(u32::try_from(number).ok()?),
            _ => None,
        })
        .collect::<Option<String>>()?;
    list.is_proper().then_some(text)
}

/// Returns the text of a binary whose characters are all printable: UTF-8, or else Latin-1.
pub(super) fn of_binary(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let text = match str::from_utf8(bytes) {
        _ if bytes.is_empty() => return None,
        Ok(text) => Cow::Borrowed(text),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    };
    text.chars().all(is_printable).then_some(text)
}

/// Appends `text` in quotes, with escapes where necessary.
pub(super) fn push_quoted(text: &str, quote: char, out: &mut String) {
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\x1b' => out.push_str("\\e"),
            '\x7f' => out.push_str("\\d"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => {
                out.push('\\');
                out.push(character);
            }
            '\0'..='\x1f' | '\u{80}'..='\u{9f}' => {
                let _ = write!(out, "\\{:03o}", character as u32);
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
}
