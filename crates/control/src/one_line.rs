//! JSON on one line.
//!
//! Must never change what a value says: numbers keep their digits, objects their order.

use bytes::Bytes;
use memchr::memchr2;

/// Returns a valid JSON value without line breaks. When it has none, `share` gives its bytes as
/// they are.
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
