//! Reasons to fail a connection whose client breaks the protocol.
//!
//! Owns the close code and the sentence for each. After any of them the bytes that follow mean
//! nothing.

use super::CloseCode;

/// Reason why frames of a client are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameError {
    /// A reserved bit without an extension that gives it a meaning (RFC 6455, section 5.2).
    ReservedBit,
    /// An opcode without a meaning (RFC 6455, section 5.2).
    ReservedOpcode,
    /// A frame without a mask (RFC 6455, section 5.1).
    Unmasked,
    /// A length in more bytes than it needs, or beyond 2^63 (RFC 6455, section 5.2).
    Length,
    /// A control frame of more than 125 bytes (RFC 6455, section 5.5).
    ControlTooLong,
    /// A control frame in fragments (RFC 6455, section 5.5).
    ControlFragmented,
    /// A continuation of no message (RFC 6455, section 5.4).
    UnexpectedContinuation,
    /// A new message within one that is not finished (RFC 6455, section 5.4).
    ExpectedContinuation,
    /// A close frame with a single byte (RFC 6455, section 5.5.1).
    CloseTooShort,
    /// A close code that must not be sent (RFC 6455, section 7.4).
    CloseCode,
    /// Text that is not UTF-8 (RFC 6455, section 8.1).
    NotUtf8,
    /// A message larger than the limit.
    TooBig,
    /// A message in more fragments than the limit.
    TooManyFragments,
}

impl FrameError {
    /// Returns the code to close the connection with (RFC 6455, section 7.4.1).
    pub const fn code(self) -> CloseCode {
        match self {
            Self::NotUtf8 => CloseCode::INVALID_PAYLOAD,
            Self::TooBig => CloseCode::TOO_BIG,
            Self::TooManyFragments => CloseCode::POLICY,
            _ => CloseCode::PROTOCOL,
        }
    }

    /// Returns a sentence for the client: what was wrong.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ReservedBit => "a reserved bit is set, but no extension was negotiated",
            Self::ReservedOpcode => "the opcode of a frame is reserved",
            Self::Unmasked => "a frame is not masked",
            Self::Length => "the length of a frame is not in its shortest form",
            Self::ControlTooLong => "a control frame has more than 125 bytes",
            Self::ControlFragmented => "a control frame is fragmented",
            Self::UnexpectedContinuation => "a continuation frame continues no message",
            Self::ExpectedContinuation => "a message begins before the last one has ended",
            Self::CloseTooShort => "a close frame has a payload of one byte",
            Self::CloseCode => "the code of a close frame must not be sent",
            Self::NotUtf8 => "a text is not UTF-8",
            Self::TooBig => "the message is too big",
            Self::TooManyFragments => "the message has too many fragments",
        }
    }
}
