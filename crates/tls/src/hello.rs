//! ClientHellos: whether the first bytes of a connection hold a whole one.
//!
//! A peer that has sent a part of a ClientHello costs the bytes of that part. Only a whole one is
//! worth a [`Connection`](crate::Connection), which takes several kilobytes during the handshake.

use crate::alert::Alert;
use crate::record::{HANDSHAKE, HEADER_BYTES, PLAINTEXT_BYTES_MAX, payload_bytes};

/// The longest ClientHello, with the headers of its records: as much as the head of a request may
/// have. Browsers send 2 KiB with a post-quantum key share, and less without.
pub const HELLO_BYTES_MAX: usize = 8 << 10;

/// The first byte of a handshake message that is a ClientHello (RFC 8446, section 4).
const CLIENT_HELLO: u8 = 1;

/// Type and length of a handshake message.
const MESSAGE_HEADER_BYTES: usize = 4;

/// How much of a ClientHello has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    /// The bytes may become a ClientHello. Read more.
    Incomplete,
    /// A whole ClientHello is there, as to its length. More may follow it.
    Whole,
}

/// Why bytes cannot become a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// They are a request of HTTP without TLS.
    PlainHttp,
    /// They are something else.
    NotTls,
    /// They announce more than [`HELLO_BYTES_MAX`] bytes.
    TooLong,
}

impl HelloError {
    /// The record to send before the connection is closed.
    pub const fn alert(self) -> [u8; 7] {
        match self {
            Self::PlainHttp | Self::NotTls => Alert::ProtocolVersion.plain_record(),
            Self::TooLong => Alert::HandshakeFailure.plain_record(),
        }
    }
}

/// Tells whether the bytes that a connection began with hold a whole ClientHello. It may be spread
/// over several records.
///
/// # Errors
///
/// When no further bytes could make these a ClientHello.
pub fn inspect(received: &[u8]) -> Result<Hello, HelloError> {
    if looks_like_http(received) {
        return Err(HelloError::PlainHttp);
    }
    let mut message = Message::default();
    let mut rest = received;
    let mut before = 0;
    loop {
        check_header(rest)?;
        let Some(payload) = payload_bytes(rest) else {
            return Ok(Hello::Incomplete);
        };
        if payload == 0 || payload > PLAINTEXT_BYTES_MAX {
            return Err(HelloError::NotTls);
        }
        let arrived = &rest[HEADER_BYTES..];
        let taken = payload.min(arrived.len());
        message.take(&arrived[..taken])?;
        match message.missing() {
            Some(0) => return Ok(Hello::Whole),
            Some(missing) if before + HEADER_BYTES + taken + missing > HELLO_BYTES_MAX => {
                return Err(HelloError::TooLong);
            }
            _ if arrived.len() < payload => break,
            _ => {}
        }
        before += HEADER_BYTES + payload;
        rest = &arrived[payload..];
    }
    if received.len() >= HELLO_BYTES_MAX {
        return Err(HelloError::TooLong);
    }
    Ok(Hello::Incomplete)
}

/// A handshake message, read from the payloads of its records.
#[derive(Default)]
struct Message {
    header: [u8; MESSAGE_HEADER_BYTES],
    /// Bytes that have arrived, the header included.
    arrived: usize,
}

impl Message {
    fn take(&mut self, payload: &[u8]) -> Result<(), HelloError> {
        let header = self.header.iter_mut().skip(self.arrived);
        for (place, &byte) in header.zip(payload) {
            *place = byte;
        }
        self.arrived += payload.len();
        if self.arrived > 0 && self.header[0] != CLIENT_HELLO {
            return Err(HelloError::NotTls);
        }
        Ok(())
    }

    /// Bytes until the message is whole, if its length is known.
    fn missing(&self) -> Option<usize> {
        if self.arrived < MESSAGE_HEADER_BYTES {
            return None;
        }
        let [_, high, middle, low] = self.header;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        Some((MESSAGE_HEADER_BYTES + length).saturating_sub(self.arrived))
    }
}

/// Checks the bytes of a record's header that are there: a handshake record of version 3.x.
fn check_header(header: &[u8]) -> Result<(), HelloError> {
    let wrong = |at: usize, expected: u8| header.get(at).is_some_and(|&byte| byte != expected);
    if wrong(0, HANDSHAKE) || wrong(1, 3) {
        return Err(HelloError::NotTls);
    }
    Ok(())
}

/// Returns whether the bytes begin like the method of a request.
fn looks_like_http(received: &[u8]) -> bool {
    const METHODS: [&[u8]; 7] = [
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"OPTIONS ",
        b"DELETE ",
        b"PATCH ",
    ];
    METHODS.iter().any(|method| received.starts_with(method))
}
