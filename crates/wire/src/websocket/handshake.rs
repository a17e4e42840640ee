//! The opening handshake (RFC 6455, section 4.2).
//!
//! Owns what a request must say, and the proof that it was understood. Whether the origin may
//! connect is the caller's to decide.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::head::{Body, Method, Request, Version};
use crate::status::Status;

/// The version of the protocol, as both sides write it.
pub const VERSION: &str = "13";

/// Bytes of the value of `Sec-WebSocket-Accept`: base64 of a SHA-1.
pub const ACCEPT_BYTES: usize = 28;

/// Bytes of a client's key, decoded.
const KEY_BYTES: usize = 16;

/// Appended to the key, so that only a server that knows the protocol answers right (RFC 6455,
/// section 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Value of `Sec-WebSocket-Accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept([u8; ACCEPT_BYTES]);

impl Accept {
    /// Returns the value as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("base64 is ASCII")
    }

    fn of(key: &str) -> Self {
        let mut hash = sha1_smol::Sha1::new();
        hash.update(key.as_bytes());
        hash.update(KEY_SUFFIX);
        let mut text = [0; ACCEPT_BYTES];
        STANDARD
            .encode_slice(hash.digest().bytes(), &mut text)
            .expect("20 bytes are 28 in base64");
        Self(text)
    }
}

/// Reason why a request does not open a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandshakeError {
    /// The method is not GET, or the version is not HTTP/1.1.
    NotGet11,
    /// `Upgrade` does not name `websocket`.
    Upgrade,
    /// `Connection` does not name `upgrade`: a proxy may have removed it.
    Connection,
    /// `Sec-WebSocket-Version` is not 13.
    Version,
    /// `Sec-WebSocket-Key` is not base64 of 16 bytes, or is there not once.
    Key,
    /// The request has a body, whose bytes could be taken for frames.
    Body,
}

impl HandshakeError {
    /// Returns the status to answer with. With 426 go the fields `Upgrade` and
    /// `Sec-WebSocket-Version` (RFC 6455, section 4.4; RFC 9110, section 15.5.22).
    pub const fn status(self) -> Status {
        match self {
            Self::Upgrade | Self::Connection | Self::Version => Status::UPGRADE_REQUIRED,
            Self::NotGet11 | Self::Key | Self::Body => Status::BAD_REQUEST,
        }
    }

    /// Returns a sentence for the client: what was wrong and what is needed.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotGet11 => "a WebSocket is opened by GET over HTTP/1.1",
            Self::Upgrade => {
                "this path is for WebSocket: the request needs Upgrade: websocket and Connection: \
                 Upgrade; without WebSocket use /events/ or /stream/"
            }
            Self::Connection => {
                "the request has no Connection: Upgrade; a proxy in front must pass on Upgrade and \
                 Connection"
            }
            Self::Version => "the request needs Sec-WebSocket-Version: 13",
            Self::Key => "the request needs one Sec-WebSocket-Key, which is base64 of 16 bytes",
            Self::Body => "a request that opens a WebSocket must not have a body",
        }
    }
}

/// Checks a request that is to open a WebSocket. Offered subprotocols and extensions are not
/// accepted, which the answer says by not naming one.
///
/// # Errors
///
/// See [`HandshakeError`].
pub fn check(request: &Request<'_>) -> Result<Accept, HandshakeError> {
    if request.method != Method::Get || request.version != Version::Http11 {
        return Err(HandshakeError::NotGet11);
    }
    if !lists(request, "upgrade", "websocket") {
        return Err(HandshakeError::Upgrade);
    }
    if !lists(request, "connection", "upgrade") {
        return Err(HandshakeError::Connection);
    }
    if request.body != Body::None {
        return Err(HandshakeError::Body);
    }
    if only(request, "sec-websocket-version") != Some(VERSION) {
        return Err(HandshakeError::Version);
    }
    let key = only(request, "sec-websocket-key").ok_or(HandshakeError::Key)?;
    let mut decoded = [0; KEY_BYTES + 2];
    match STANDARD.decode_slice(key, &mut decoded) {
        Ok(KEY_BYTES) => Ok(Accept::of(key)),
        _ => Err(HandshakeError::Key),
    }
}

/// Returns the value of a field that is there once.
fn only<'a>(request: &Request<'a>, name: &str) -> Option<&'a str> {
    let mut values = request.values(name);
    match (values.next(), values.next()) {
        (Some(Ok(value)), None) => Some(value),
        _ => None,
    }
}

/// Returns whether a list in fields of this name has `token`, without regard to case.
fn lists(request: &Request<'_>, name: &str, token: &str) -> bool {
    let mut tokens = request.values(name).flatten().flat_map(|it| it.split(','));
    tokens.any(|found| found.trim().eq_ignore_ascii_case(token))
}
