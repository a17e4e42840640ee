//! JSON of requests, and what is said of JSON that is wrong.

use serde::Deserialize;
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
