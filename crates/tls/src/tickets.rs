//! Keys of session tickets, and their rotation.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;

use crate::TlsError;

/// Seconds for which a key makes tickets. For as long again it only reads them.
///
/// A stolen key opens the recorded connections of TLS 1.2 that got a ticket under it, so keys are
/// forgotten soon. Those of TLS 1.3 make a new key exchange when they resume.
const KEY_SECONDS: u64 = 6 * 60 * 60;

/// What clients are told of the life of a ticket.
const TICKET_SECONDS: u32 = 12 * 60 * 60;

/// Keys of session tickets, shared by the connections of a listener and by the configurations that
/// follow one another on it. Tickets of a process end with it.
#[derive(Clone)]
pub struct TicketKeys(Arc<Mutex<Keys>>);

struct Keys {
    current: Arc<dyn ProducesTickets>,
    previous: Option<Arc<dyn ProducesTickets>>,
    /// When the current key stops making tickets, in Unix seconds.
    rotates: u64,
}

impl TicketKeys {
    /// New keys.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] when there is no randomness.
    pub fn new(now: UnixTime) -> Result<Self, TlsError> {
        let keys = Keys {
            current: Ticketer::new()?,
            previous: None,
            rotates: now.as_secs().saturating_add(KEY_SECONDS),
        };
        Ok(Self(Arc::new(Mutex::new(keys))))
    }

    /// Returns the key that makes tickets now, and the one before it.
    fn at(&self, now: UnixTime) -> Option<(Arc<dyn ProducesTickets>, Previous)> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.rotate(now.as_secs())?;
        Some((Arc::clone(&keys.current), keys.previous.clone()))
    }
}

type Previous = Option<Arc<dyn ProducesTickets>>;

impl Keys {
    /// Makes a new key when the current one is due. A clock that was set back changes nothing.
    fn rotate(&mut self, now: u64) -> Option<()> {
        if now < self.rotates {
            return Some(());
        }
        let new = Ticketer::new().ok()?;
        let replaced = std::mem::replace(&mut self.current, new);
        // After a second period without a handshake the replaced key may not read tickets either.
        self.previous = (now < self.rotates.saturating_add(KEY_SECONDS)).then_some(replaced);
        self.rotates = now.saturating_add(KEY_SECONDS);
        Some(())
    }
}

/// Keys of session tickets with a clock, in the form that `rustls` needs.
#[derive(Debug)]
pub(crate) struct ClockedTickets {
    keys: TicketKeys,
    clock: Arc<dyn TimeProvider>,
}

impl ClockedTickets {
    pub(crate) fn new(keys: &TicketKeys, clock: Arc<dyn TimeProvider>) -> Self {
        Self {
            keys: keys.clone(),
            clock,
        }
    }
}

impl ProducesTickets for ClockedTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        TICKET_SECONDS
    }

    fn encrypt(&self, state: &[u8]) -> Option<Vec<u8>> {
        self.keys.at(self.clock.current_time()?)?.0.encrypt(state)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (current, previous) = self.keys.at(self.clock.current_time()?)?;
        let state = current.decrypt(ticket);
        state.or_else(|| previous?.decrypt(ticket))
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}
