//! Headers of frames (RFC 6455, section 5.2).
//!
//! Owns every rule that one header can break. What depends on earlier frames is the decoder's.

use super::FrameError;

/// Most bytes of the payload of a control frame (RFC 6455, section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// Bytes of the longest header of a client: two, a length of eight, a mask of four.
pub(super) const CLIENT_HEADER_BYTES_MAX: usize = 14;

/// Meaning of a frame (RFC 6455, section 11.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation = 0,
    /// A text message, or its first fragment.
    Text = 1,
    /// A binary message, or its first fragment.
    Binary = 2,
    /// The last frame of a side.
    Close = 8,
    /// A question whether the peer lives.
    Ping = 9,
    /// The answer to a ping.
    Pong = 10,
}

impl Opcode {
    const fn of(nibble: u8) -> Option<Self> {
        Some(match nibble {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Returns whether frames of this kind may stand between the fragments of a message.
    pub const fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// Header of a client's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) opcode: Opcode,
    /// Whether the frame is the last of its message.
    pub(super) is_final: bool,
    pub(super) mask: [u8; 4],
    /// Bytes of the payload.
    pub(super) length: u64,
}

/// Parses the header at the start of `input`, and returns it with its length in bytes. `Ok(None)`
/// asks for more bytes. A broken rule is reported as soon as the bytes so far show it.
pub(super) fn parse(input: &[u8]) -> Result<Option<(Header, usize)>, FrameError> {
    let Some(&first) = input.first() else {
        return Ok(None);
    };
    if first & 0x70 != 0 {
        return Err(FrameError::ReservedBit);
    }
    let opcode = Opcode::of(first & 0x0f).ok_or(FrameError::ReservedOpcode)?;
    let is_final = first & 0x80 != 0;
    if opcode.is_control() && !is_final {
        return Err(FrameError::ControlFragmented);
    }
    let Some(&second) = input.get(1) else {
        return Ok(None);
    };
    if second & 0x80 == 0 {
        return Err(FrameError::Unmasked);
    }
    let short = second & 0x7f;
    if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
        return Err(FrameError::ControlTooLong);
    }
    let after = &input[2..];
    let (length, least, mask) = match short {
        126 => match after.split_first_chunk() {
            Some((length, mask)) => (u64::from(u16::from_be_bytes(*length)), 126, mask),
            None => return Ok(None),
        },
        127 => match after.split_first_chunk() {
            Some((length, mask)) => (u64::from_be_bytes(*length), 1 << 16, mask),
            None => return Ok(None),
        },
        _ => (u64::from(short), 0, after),
    };
    if length < least || length >> 63 != 0 {
        return Err(FrameError::Length);
    }
    let Some((&mask, rest)) = mask.split_first_chunk() else {
        return Ok(None);
    };
    let header = Header {
        opcode,
        is_final,
        mask,
        length,
    };
    Ok(Some((header, input.len() - rest.len())))
}
