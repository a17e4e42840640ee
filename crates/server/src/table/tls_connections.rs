//! TLS connections of a worker.
//!
//! The table is asked only about connections that have the [`Extras::TLS`] bit. A slot with the bit
//! and without an entry has not sent its ClientHello, or its handshake has failed.

use reactor::{Driver, SlotKey};
use tls::{Connection, Received, ServerConfig, TlsError};

use super::{CloseReason, ConnectionTable, Extras, Phase};
use crate::limits::TLS_HANDSHAKE_BYTES;
use crate::stats::Metric;

/// Returns the metric that counts handshakes that fail with an error.
const fn failure(error: TlsError) -> Metric {
    match error {
        TlsError::Alert(_) => Metric::TlsFailedAlert,
        TlsError::Incompatible => Metric::TlsFailedIncompatible,
        TlsError::Malformed | TlsError::BadRecord => Metric::TlsFailedMalformed,
        TlsError::TooLarge => Metric::TlsFailedTooLarge,
        TlsError::Ended | TlsError::Handshaking | TlsError::Internal => Metric::TlsFailedInternal,
    }
}

impl<D: Driver> ConnectionTable<D> {
    /// Returns the TLS connection in a slot, from its ClientHello on.
    pub(crate) fn tls(&mut self, key: SlotKey) -> Option<&mut Connection> {
        self.tls.get_mut(key.index)
    }

    /// Returns whether a connection is encrypted.
    pub(crate) fn is_tls(&self, key: SlotKey) -> bool {
        self.has(key, Extras::TLS)
    }

    /// Returns whether what a connection has sent so far is the beginning of a ClientHello.
    pub(crate) fn awaits_hello(&mut self, key: SlotKey) -> bool {
        self.is_tls(key) && self.tls(key).is_none()
    }

    /// Makes a TLS connection, as a whole ClientHello has arrived.
    ///
    /// # Errors
    ///
    /// Those of [`Connection::new`].
    pub(crate) fn begin_tls(
        &mut self,
        key: SlotKey,
        config: &ServerConfig,
    ) -> Result<(), TlsError> {
        let now = std::time::Duration::from_secs(self.clock.unix_seconds);
        match Connection::new(config, tls::UnixTime::since_unix_epoch(now)) {
            Ok(connection) => {
                assert!(self.tls.get(key.index).is_none(), "a handshake begins once");
                self.tls_input_bytes += input_bytes(&connection);
                self.tls.insert(key.index, connection);
                Ok(())
            }
            Err(error) => {
                self.fail_handshake(key, failure(error));
                Err(error)
            }
        }
    }

    /// Opens the records that a connection has received, and sends what TLS itself has to answer.
    /// The content is appended to `plaintext`. Returns `None` when the connection is broken, or
    /// closed because its peer does not take the answers.
    ///
    /// # Errors
    ///
    /// What ends the connection. The alert has been sent.
    pub(crate) fn open_records(
        &mut self,
        key: SlotKey,
        ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Option<Result<Received, TlsError>> {
        let connection = self.tls.get_mut(key.index)?;
        let began = connection.is_handshaking().then(|| self.driver.elapsed());
        let mut received = Ok(Received::Open);
        self.tls_input_bytes -= input_bytes(connection);
        self.batch
            .set(|reply| received = connection.receive(ciphertext, plaintext, reply));
        self.tls_input_bytes += input_bytes(connection);
        if let Some(began) = began {
            let took = self.driver.elapsed().saturating_sub(began);
            self.stats
                .add(Metric::TlsHandshakeTime, took.as_nanos() as u64);
        }
        if began.is_some() {
            match (connection.negotiated(), received) {
                (Some(negotiated), _) => {
                    self.stats.add(Metric::TlsConnections, 1);
                    let kind = match negotiated.resumed {
                        true => Metric::TlsResumed,
                        false => Metric::TlsFull,
                    };
                    self.stats.add(kind, 1);
                    // The time for the first request begins.
                    self.enter(key, Phase::Head { partial: false });
                }
                (None, Err(error)) => self.fail_handshake(key, failure(error)),
                (None, Ok(_)) => {}
            }
        }
        self.send_batch(key).then_some(received)
    }

    /// Sends an alert to a peer that has not begun a handshake.
    pub(crate) fn send_alert(&mut self, key: SlotKey, alert: &[u8]) {
        self.batch.set(|records| records.extend_from_slice(alert));
        self.send_batch(key);
    }

    /// Counts a handshake that has failed, and forgets its TLS connection. All that may still be
    /// sent is the alert.
    pub(crate) fn fail_handshake(&mut self, key: SlotKey, reason: Metric) {
        self.stats.add(reason, 1);
        self.drop_tls(key);
        if let Some(connection) = self.get_mut(key) {
            connection.extras.remove(Extras::TLS);
        }
    }

    /// Sends `close_notify`, once. Returns whether the socket took it, so that this side may end.
    pub(super) fn send_close_notify(&mut self, key: SlotKey) -> bool {
        let Some(tls) = self.tls.get_mut(key.index) else {
            return true;
        };
        self.batch.set(|records| tls.close_notify(records));
        self.send_batch(key) && self.get(key).is_some_and(|connection| !connection.blocked)
    }

    /// Closes a connection whose peer has ended it by `close_notify`, with one in return if the
    /// socket takes it.
    pub(crate) fn close_both(&mut self, key: SlotKey, reason: CloseReason) {
        if self.get(key).is_some_and(|connection| !connection.blocked) {
            self.send_close_notify(key);
        }
        self.close(key, reason);
    }

    /// Removes the TLS connection of a slot whose connection was closed for `reason`.
    pub(super) fn remove_tls(&mut self, key: SlotKey, reason: CloseReason) {
        let tls = self.tls.get_mut(key.index);
        match tls.map(|tls| tls.is_handshaking()) {
            Some(false) => self.stats.take(Metric::TlsConnections, 1),
            _ => match reason {
                CloseReason::Timeout => self.stats.add(Metric::TlsFailedTimeout, 1),
                CloseReason::Peer | CloseReason::Reset => {
                    self.stats.add(Metric::TlsFailedEnded, 1);
                }
                // Not the handshake's fault.
                _ => {}
            },
        }
        self.drop_tls(key);
    }

    fn drop_tls(&mut self, key: SlotKey) {
        self.tls_input_bytes -= self.tls.get(key.index).map_or(0, input_bytes);
        self.tls.remove(key.index);
    }

    /// Returns the memory of an unfinished handshake or record in a slot.
    pub(crate) fn tls_input_bytes_of(&self, slot: u32) -> usize {
        self.tls.get(slot).map_or(0, input_bytes)
    }
}

/// Returns the memory of an unfinished handshake or record.
pub(super) fn input_bytes(tls: &Connection) -> usize {
    let handshake = match tls.is_handshaking() {
        true => TLS_HANDSHAKE_BYTES,
        false => 0,
    };
    handshake + tls.buffered()
}
