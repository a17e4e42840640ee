//! Handshakes with `rustls`, and the export of their secrets.
//!
//! `rustls` gets one record at a time. So when the handshake is done, its buffers have no bytes
//! after the client's last message, and the record layer that takes over gets all of them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::UnixTime;
use rustls::server::ServerConnection;
use rustls::time_provider::TimeProvider;
use rustls::{ConnectionTrafficSecrets, HandshakeKind, KeyLog, ProtocolVersion};
use zeroize::Zeroizing;

use crate::connection::{Received, State};
use crate::established::Established;
use crate::kept::Kept;
use crate::record::{CIPHERTEXT_12_BYTES_MAX, Partial};
use crate::tickets::ClockedTickets;
use crate::traffic::{Suite, TrafficKeys};
use crate::{ServerConfig, TlsError};

/// Most bytes of a client until the handshake is done: two ClientHellos, because a
/// HelloRetryRequest makes it send a second one, and the short messages at the end.
const HANDSHAKE_BYTES_MAX: usize = 2 * crate::hello::HELLO_BYTES_MAX + (4 << 10);

/// A handshake under way.
pub(crate) struct Handshake {
    rustls: Kept,
    hooks: Arc<Hooks>,
    partial: Partial,
    /// Bytes of whole records received.
    received: usize,
    keep_rustls: bool,
}

impl Handshake {
    /// Returns a handshake that begins at `now`.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] when `rustls` refuses its configuration.
    pub(crate) fn new(config: &ServerConfig, now: UnixTime) -> Result<Self, TlsError> {
        let hooks = Arc::new(Hooks {
            now,
            secrets: Mutex::default(),
        });
        let mut own = config.template();
        own.time_provider = Arc::<Hooks>::clone(&hooks);
        let clock = Arc::<Hooks>::clone(&hooks);
        own.ticketer = Arc::new(ClockedTickets::new(config.tickets(), clock));
        let keep_rustls = config.options().keep_rustls;
        if !keep_rustls {
            own.key_log = Arc::<Hooks>::clone(&hooks);
        }
        Ok(Self {
            rustls: Kept::new(ServerConnection::new(Arc::new(own))?),
            hooks,
            partial: Partial::default(),
            received: 0,
            keep_rustls,
        })
    }

    /// Returns whether the handshake needs further messages of the client.
    pub(crate) fn is_under_way(&self) -> bool {
        self.rustls.is_handshaking()
    }

    /// Bytes that wait for the end of their record.
    pub(crate) fn buffered(&self) -> usize {
        self.partial.len()
    }

    /// Processes records of `ciphertext` until the handshake is done or there is none left. Appends
    /// answers to `reply`.
    ///
    /// # Errors
    ///
    /// When the connection has failed. Then `reply` has the alert to send.
    pub(crate) fn receive(
        &mut self,
        ciphertext: &mut &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        // There is no plaintext before the end of the handshake, because early data is not
        // accepted.
        let mut plaintext = Vec::new();
        while self.is_under_way() {
            let Some(record) = self.partial.next(ciphertext, CIPHERTEXT_12_BYTES_MAX)? else {
                break;
            };
            self.received += record.len();
            let received = self.rustls.receive(&record, &mut plaintext, reply)?;
            if received == Received::Closed {
                return Err(TlsError::Ended);
            }
        }
        if self.received + self.partial.len() > HANDSHAKE_BYTES_MAX {
            return Err(TlsError::TooLarge);
        }
        Ok(())
    }

    /// Turns a handshake that is done into the state that protects records.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] when `rustls` gives no secrets, or others than it uses.
    pub(crate) fn finish(self) -> Result<State, TlsError> {
        let rustls = self.rustls;
        if self.keep_rustls || rustls.version() != Some(ProtocolVersion::TLSv1_3) {
            return Ok(State::Kept(Box::new(rustls)));
        }
        let resumed = rustls.kind() == Some(HandshakeKind::Resumed);
        let extracted = rustls.into_secrets()?;
        let secrets = self.hooks.take_secrets();
        let (suite, send) = traffic_keys(&secrets.server, extracted.tx)?;
        let (_, receive) = traffic_keys(&secrets.client, extracted.rx)?;
        Ok(State::Established(Established::new(
            suite, send, receive, resumed,
        )))
    }
}

/// Returns the keys of one direction. `rustls` gives key, initialization vector and record number,
/// and logs the secret that they follow from, which only a later `KeyUpdate` needs.
fn traffic_keys(
    secret: &[u8],
    (sequence, extracted): (u64, ConnectionTrafficSecrets),
) -> Result<(Suite, TrafficKeys), TlsError> {
    let (suite, key, iv) = match &extracted {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Suite::Aes128GcmSha256, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Suite::Aes256GcmSha384, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (Suite::Chacha20Poly1305Sha256, key, iv)
        }
        _ => return Err(TlsError::Internal),
    };
    let keys = TrafficKeys::from_parts(suite, secret, (key.as_ref(), iv.as_ref()), sequence)?;
    Ok((suite, keys))
}

/// Traffic secrets of both sides, as `rustls` logs them.
#[derive(Default)]
struct Secrets {
    client: Zeroizing<Vec<u8>>,
    server: Zeroizing<Vec<u8>>,
}

/// Callbacks of `rustls` during a handshake: the time, and the log of secrets.
pub(crate) struct Hooks {
    now: UnixTime,
    secrets: Mutex<Secrets>,
}

impl Hooks {
    fn take_secrets(&self) -> Secrets {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *secrets)
    }
}

impl TimeProvider for Hooks {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now)
    }
}

impl KeyLog for Hooks {
    fn will_log(&self, label: &str) -> bool {
        matches!(label, CLIENT_SECRET | SERVER_SECRET)
    }

    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let secret = Zeroizing::new(secret.to_vec());
        match label {
            CLIENT_SECRET => secrets.client = secret,
            SERVER_SECRET => secrets.server = secret,
            _ => {}
        }
    }
}

/// The label of the secret with which a client of TLS 1.3 protects its data.
const CLIENT_SECRET: &str = "CLIENT_TRAFFIC_SECRET_0";

/// The label of the secret with which a server of TLS 1.3 protects its data.
const SERVER_SECRET: &str = "SERVER_TRAFFIC_SECRET_0";

impl fmt::Debug for Hooks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Hooks").finish_non_exhaustive()
    }
}
