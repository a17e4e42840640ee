//! WebSocket (RFC 6455), the side of the server.
//!
//! Owns the handshake, the frames of both directions and close codes. Must never answer by itself:
//! the caller sends pongs and closes. Extensions and subprotocols are not negotiated, so a reserved
//! bit is an error.

/// The opening handshake.
mod handshake;
/// Headers of frames.
mod header;
/// Frames of a client to messages.
mod decoder;
/// Close codes.
mod close_code;
/// The payload of a close frame.
mod close;
/// Reasons to fail a connection.
mod error;
/// Frames of the server.
mod encode;

pub use close::{CLOSE_REASON_BYTES_MAX, Close};
pub use close_code::CloseCode;
pub use decoder::{Decoder, FRAGMENTS_MAX, Limits, MESSAGE_BYTES_MAX, Message};
pub use encode::{HEADER_BYTES_MAX, header, push_close, push_frame};
pub use error::FrameError;
pub use handshake::{ACCEPT_BYTES, Accept, HandshakeError, VERSION, check};
pub use header::{CONTROL_BYTES_MAX, Opcode};
