//! TLS sessions without sockets, for programs that hold many: ciphertext in, plaintext out.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error, HandshakeKind, NamedGroup};

use super::{Authorities, server_name};
use machine::failure::{Context, Outcome};

/// Tickets that are kept for later connections: those of a few seconds while many clients connect.
/// Beyond it the oldest is dropped.
const TICKETS_MAX: usize = 65_536;

/// Whether connections resume the sessions of earlier ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resumption {
    /// Each connection makes a full handshake.
    #[default]
    Never,
    /// Each connection uses a ticket that an earlier one received, while there are any.
    Tickets,
}

impl Resumption {
    /// Returns the way that an option asks for.
    pub fn of(resumes: bool) -> Self {
        if resumes { Self::Tickets } else { Self::Never }
    }
}

/// Factory of the sessions with one server.
#[derive(Debug, Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// Returns a factory of sessions with the server `host`.
    ///
    /// # Errors
    ///
    /// When the authorities cannot be used, or `host` is neither a DNS name nor an IP address.
    pub fn new(authorities: &Authorities, host: &str, resumption: Resumption) -> Outcome<Self> {
        let mut config = authorities.config()?;
        config.resumption = match resumption {
            Resumption::Never => rustls::client::Resumption::disabled(),
            Resumption::Tickets => rustls::client::Resumption::store(Arc::new(Tickets::default())),
        };
        Ok(Self {
            config: Arc::new(config),
            name: server_name(host).context("reading the URL")?,
        })
    }

    /// Returns a session whose handshake has not begun.
    ///
    /// # Errors
    ///
    /// When `rustls` cannot make the first message because the system gives no random bytes.
    pub fn session(&self) -> Result<Session, Error> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone())?;
        Ok(Session(Box::new(connection)))
    }
}

/// A TLS session. Its owner moves ciphertext between it and a socket.
#[derive(Debug)]
pub struct Session(Box<ClientConnection>);

impl Session {
    /// Decrypts received ciphertext and appends the plaintext to `plaintext`. Returns whether the
    /// server has ended the session.
    ///
    /// # Errors
    ///
    /// When the server violates the protocol, or its certificate is not trusted. Afterwards there
    /// may be an alert to [`send`](Self::send).
    pub fn receive(
        &mut self,
        mut ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let mut is_ended = false;
        while !ciphertext.is_empty() && !is_ended {
            // Fails only when plaintext was left unread, and none is.
            let taken = self.0.read_tls(&mut ciphertext);
            taken.map_err(|error| Error::General(error.to_string()))?;
            let state = self.0.process_new_packets()?;
            is_ended = state.peer_has_closed();
            let start = plaintext.len();
            plaintext.resize(start + state.plaintext_bytes_to_read(), 0);
            self.0
                .reader()
                .read_exact(&mut plaintext[start..])
                .map_err(|error| Error::General(error.to_string()))?;
        }
        Ok(is_ended)
    }

    /// Queues plaintext. It is sent when the handshake is complete.
    pub fn queue(&mut self, plaintext: &[u8]) {
        self.0
            .writer()
            .write_all(plaintext)
            .expect("a request is smaller than the buffer of a session");
    }

    /// Returns whether there is ciphertext to send.
    pub fn wants_send(&self) -> bool {
        self.0.wants_write()
    }

    /// Writes ciphertext to `socket` until there is none left.
    ///
    /// # Errors
    ///
    /// Those of `socket`. What was not written stays queued.
    pub fn send(&mut self, socket: &mut dyn Write) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(socket)?;
        }
        Ok(())
    }

    /// Queues `close_notify`, which ends the session.
    pub fn close(&mut self) {
        self.0.send_close_notify();
    }

    /// Returns whether the handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Returns whether the handshake is complete and resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

/// Tickets of all connections with one server. The store of `rustls` would keep eight.
#[derive(Debug, Default)]
struct Tickets {
    kept: Mutex<VecDeque<Tls13ClientSessionValue>>,
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    // Sessions of TLS 1.2 are not resumed: all servers that are measured speak TLS 1.3.
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == TICKETS_MAX {
            kept.pop_front();
        }
        kept.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.pop_front()
    }
}
