//! Frames of the server: unmasked and whole (RFC 6455, section 5.1).

use super::header::Opcode;
use super::{CLOSE_REASON_BYTES_MAX, CloseCode};

/// Bytes of the longest header of a server: two, and a length of eight.
pub const HEADER_BYTES_MAX: usize = 10;

/// Writes the header of a whole frame with a payload of `length` bytes to the end of `space`, and
/// returns the offset of its first byte.
pub fn header(opcode: Opcode, length: usize, space: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    let first = 0x80 | opcode as u8;
    match length {
        0..=125 => {
            space[8] = first;
            space[9] = length as u8;
            8
        }
        126..=0xffff => {
            space[6] = first;
            space[7] = 126;
            space[8..].copy_from_slice(&(length as u16).to_be_bytes());
            6
        }
        _ => {
            space[0] = first;
            space[1] = 127;
            space[2..].copy_from_slice(&(length as u64).to_be_bytes());
            0
        }
    }
}

/// Appends a whole frame. A control frame must have at most
/// [`CONTROL_BYTES_MAX`](super::CONTROL_BYTES_MAX) bytes of payload.
///
/// ```
/// use wire::websocket::{Opcode, push_frame};
///
/// let mut out = Vec::new();
/// push_frame(Opcode::Text, b"Hello", &mut out);
/// assert_eq!(out, b"\x81\x05Hello"); // RFC 6455, section 5.7
/// ```
pub fn push_frame(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    debug_assert!(!opcode.is_control() || payload.len() <= super::CONTROL_BYTES_MAX);
    let mut space = [0; HEADER_BYTES_MAX];
    let start = header(opcode, payload.len(), &mut space);
    out.extend_from_slice(&space[start..]);
    out.extend_from_slice(payload);
}

/// Appends a close frame. A reason that is too long is cut between two characters.
pub fn push_close(code: CloseCode, reason: &str, out: &mut Vec<u8>) {
    let end = reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX);
    let mut payload = code.number().to_be_bytes().to_vec();
    payload.extend_from_slice(&reason.as_bytes()[..end]);
    push_frame(Opcode::Close, &payload, out);
}
