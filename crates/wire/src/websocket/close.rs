//! The payload of a close frame (RFC 6455, section 5.5.1).

use std::borrow::Cow;

use super::header::CONTROL_BYTES_MAX;
use super::{CloseCode, FrameError};

/// Most bytes of the reason of a close frame: a control frame without the code.
pub const CLOSE_REASON_BYTES_MAX: usize = CONTROL_BYTES_MAX - 2;

/// Payload of a close frame that has a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close<'a> {
    /// The code.
    pub code: CloseCode,
    /// The reason, often empty.
    pub reason: Cow<'a, str>,
}

/// Parses the payload of a close frame; `None` for an empty one.
pub(super) fn parse(payload: Cow<'_, [u8]>) -> Result<Option<Close<'_>>, FrameError> {
    let number = match payload[..] {
        [] => return Ok(None),
        [_] => return Err(FrameError::CloseTooShort),
        [high, low, ..] => u16::from_be_bytes([high, low]),
    };
    let code = CloseCode::new(number).ok_or(FrameError::CloseCode)?;
    let reason = match payload {
        Cow::Borrowed(payload) => str::from_utf8(&payload[2..]).map(Cow::Borrowed),
        Cow::Owned(payload) => str::from_utf8(&payload[2..]).map(|it| Cow::Owned(it.to_owned())),
    };
    let reason = reason.map_err(|_| FrameError::NotUtf8)?;
    Ok(Some(Close { code, reason }))
}
