//! JSON of requests and answers, and what is said of JSON that is wrong.

use bytes::Bytes;
use memchr::memchr2;
use serde::{Deserialize, Serialize};
use wire::json::ValueError;

/// Reads a line that is a JSON object. A struct could be spelt as an array as well; nobody means
/// that.
pub(crate) fn object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    if !text.starts_with(b"{") {
        let first = text.first().map_or("nothing".into(), |byte| {
            format!("`{}`", byte.escape_ascii())
        });
        return Err(format!(
            "the line begins with {first}; it must be a JSON object"
        ));
    }
    serde_json::from_slice(text).map_err(|error| sentence(&error))
}

/// Returns a parser's sentence without its line number, as items have numbers of their own.
pub(crate) fn sentence(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = match text.strip_suffix(&place) {
        Some(text) if error.line() == 1 => format!("{text} at byte {}", error.column()),
        Some(text) => text.to_owned(),
        None => text,
    };
    // What the parser says of half a surrogate pair does not say what to do.
    match text.contains("hex escape") {
        true => format!("{text}; {}", ValueError::LoneSurrogate),
        false => text,
    }
}

/// Appends a line of JSON.
pub(crate) fn push_line(lines: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *lines, line).expect("numbers and strings are JSON");
    lines.push(b'\n');
}

/// Returns a valid JSON value without line breaks. When it has none, `share` gives its bytes as
/// they are. Must never change what a value says: numbers keep their digits, objects their order.
pub(crate) fn on_one_line(value: &str, share: impl FnOnce(&str) -> Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', value.as_bytes()).is_none() {
        return share(value);
    }
    let mut compact = Vec::with_capacity(value.len());
    let (mut string, mut escaped) = (false, false);
    for byte in value.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            b' ' | b'\t' | b'\n' | b'\r' if !string => continue,
            _ => {}
        }
        compact.push(byte);
    }
    compact.into()
}
