//! One connection, from the ClientHello to the end.

use std::fmt;

use rustls::pki_types::UnixTime;
use rustls::{HandshakeKind, ProtocolVersion};

use crate::established::Established;
use crate::handshake::Handshake;
use crate::kept::Kept;
use crate::{ServerConfig, TlsError};

/// The server's side of a connection. The caller owns the socket.
///
/// To be created when [`hello::inspect`](crate::hello::inspect) has found a whole ClientHello. The
/// bytes that [`receive`](Self::receive) and [`seal`](Self::seal) append must be sent in the order
/// of the calls. After an error the caller sends the bytes in `reply` and closes the socket.
pub struct Connection(pub(crate) State);

/// Stages of a connection.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all connections are established, and a box would cost each 16 bytes more"
)]
pub(crate) enum State {
    Handshake(Box<Handshake>),
    Established(Established),
    Kept(Box<Kept>),
    /// The connection has failed. Nothing more is received or sealed.
    Ended,
}

/// Bytes of an established connection of TLS 1.3: keys and record numbers of both directions.
/// Nothing of it is on the heap, so that freed memory of handshakes leaves no holes between idle
/// connections.
pub const CONNECTION_BYTES: usize = size_of::<State>();

const _: () = assert!(CONNECTION_BYTES <= 216);
const _: () = assert!(size_of::<Option<Connection>>() == CONNECTION_BYTES);

/// Whether the peer may send more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// The peer may send more.
    Open,
    /// The peer has sent `close_notify`, after which no content follows. If the socket ends without
    /// it, a third party may have cut the connection.
    Closed,
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// Returns the version in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}

/// Result of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The version.
    pub version: Version,
    /// Whether a session was resumed.
    pub resumed: bool,
    /// Whether this crate protects the records, instead of `rustls`.
    pub own_records: bool,
}

impl Connection {
    /// Returns a connection that has received nothing yet. `now` decides whether session tickets
    /// are valid.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] when there is no randomness.
    pub fn new(config: &ServerConfig, now: UnixTime) -> Result<Self, TlsError> {
        let handshake = Handshake::new(config, now)?;
        Ok(Self(State::Handshake(Box::new(handshake))))
    }

    /// Processes all of `ciphertext`, which may end anywhere in a record. Appends content to
    /// `plaintext`, and handshake messages and alerts to `reply`.
    ///
    /// # Errors
    ///
    /// When the connection has failed. Then `reply` has the alert to send.
    pub fn receive(
        &mut self,
        ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        let received = self.advance(ciphertext, plaintext, reply);
        if received.is_err() {
            self.0 = State::Ended;
        }
        received
    }

    fn advance(
        &mut self,
        mut ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        if let State::Handshake(handshake) = &mut self.0 {
            handshake.receive(&mut ciphertext, reply)?;
            if handshake.is_under_way() {
                return Ok(Received::Open);
            }
            if let State::Handshake(done) = std::mem::replace(&mut self.0, State::Ended) {
                self.0 = done.finish()?;
            }
        }
        match &mut self.0 {
            State::Established(it) => it.receive(ciphertext, plaintext, reply),
            State::Kept(it) => it.receive(ciphertext, plaintext, reply),
            State::Handshake(_) | State::Ended => Err(TlsError::Ended),
        }
    }

    /// Appends the records that carry `slices`, one after another, to `out`.
    ///
    /// # Errors
    ///
    /// [`TlsError::Handshaking`] before the handshake is done, [`TlsError::Ended`] after
    /// [`close_notify`](Self::close_notify) or an error. Nothing is appended then.
    pub fn seal(&mut self, slices: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        match &mut self.0 {
            State::Established(it) => it.seal(slices, out),
            State::Kept(it) => it.seal(slices, out),
            State::Handshake(_) => Err(TlsError::Handshaking),
            State::Ended => Err(TlsError::Ended),
        }
    }

    /// Appends `close_notify`, by which the peer can tell the end from a cut connection. Does
    /// nothing the second time and before the end of the handshake.
    pub fn close_notify(&mut self, out: &mut Vec<u8>) {
        match &mut self.0 {
            State::Established(it) => it.close_notify(out),
            State::Kept(it) => it.close_notify(out),
            State::Handshake(_) | State::Ended => {}
        }
    }

    /// Returns whether the handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        matches!(&self.0, State::Handshake(_))
    }

    /// Returns the result of the handshake; `None` before its end.
    pub fn negotiated(&self) -> Option<Negotiated> {
        match &self.0 {
            State::Established(it) => Some(Negotiated {
                version: Version::Tls13,
                resumed: it.resumed(),
                own_records: true,
            }),
            State::Kept(it) => Some(Negotiated {
                version: match it.version() {
                    Some(ProtocolVersion::TLSv1_3) => Version::Tls13,
                    _ => Version::Tls12,
                },
                resumed: it.kind() == Some(HandshakeKind::Resumed),
                own_records: false,
            }),
            State::Handshake(_) | State::Ended => None,
        }
    }

    /// Returns the number of received bytes that wait for the end of their record: at most 18,437.
    /// Callers bound their sum.
    pub fn buffered(&self) -> usize {
        match &self.0 {
            State::Handshake(it) => it.buffered(),
            State::Established(it) => it.buffered(),
            // `rustls` does not report them.
            State::Kept(_) | State::Ended => 0,
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.0 {
            State::Handshake(_) => "Handshake",
            State::Established(_) => "Established",
            State::Kept(_) => "Kept",
            State::Ended => "Ended",
        };
        out.debug_tuple("Connection").field(&stage).finish()
    }
}
