//! JSON strings.
//!
//! Owns escaping (RFC 8259, section 7). Must never parse JSON: the caller has validated it.

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
