//! Input of TLS connections: ClientHellos, handshakes, and records to plaintext.
//!
//! Before a ClientHello has arrived whole, only its bytes are kept, as those of incomplete heads
//! are. Handshakes then begin in the order in which their ClientHellos arrived, a few in each turn,
//! so that a storm of them does not keep sessions waiting.

use std::collections::VecDeque;
use std::mem;

use reactor::{Driver, SlotKey};
use tls::hello::{self, Hello, HelloError};
use tls::{Received, ServerConfig, TlsError};

use super::{Ingress, RequestHandler};
use crate::limits::{SCRATCH_KEPT_BYTES, SESSION_RECORD_BYTES_MAX};
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Extras, Phase};

/// What the input of TLS connections needs beyond that of others.
#[derive(Debug)]
pub(super) struct TlsInput {
    pub(super) config: Option<ServerConfig>,
    /// Plaintext of the records just received. Shared by all connections of the worker.
    plaintext: Vec<u8>,
    /// Connections whose handshakes begin in later turns, in order.
    waiting: VecDeque<SlotKey>,
    /// Handshakes that may still begin in this turn.
    budget: usize,
}

impl TlsInput {
    pub(super) const fn new(config: Option<ServerConfig>) -> Self {
        Self {
            config,
            plaintext: Vec::new(),
            waiting: VecDeque::new(),
            budget: 0,
        }
    }

    /// Returns whether handshakes wait for their turn.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Frees working memory that grew in a burst.
    pub(super) fn trim(&mut self) {
        if self.plaintext.capacity() > SCRATCH_KEPT_BYTES {
            self.plaintext = Vec::new();
        }
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }
}

impl Ingress {
    /// Begins a turn, and in it the handshakes that have waited longest.
    pub(super) fn begin_waiting_handshakes<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        handler: &mut impl RequestHandler<D>,
    ) {
        self.tls.budget = table.limits.handshakes_per_turn;
        while self.tls.budget > 0
            && let Some(key) = self.tls.waiting.pop_front()
        {
            let Some(connection) = table.get_mut(key) else {
                continue;
            };
            connection.extras.remove(Extras::CLIENT_HELLO);
            if let Some(hello) = self.kept.remove(key.index) {
                self.begin_handshake(table, key, &hello, handler);
                // What came meanwhile was left in the kernel.
                self.read(table, key, true, handler);
            }
        }
    }

    /// Acts on bytes of a TLS connection, which filled the block if `is_full`.
    pub(super) fn ingest_ciphertext<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        bytes: &[u8],
        is_full: bool,
        handler: &mut impl RequestHandler<D>,
    ) {
        match table.get(key).map(|connection| connection.phase) {
            None | Some(Phase::Ending { .. } | Phase::Closed) => {}
            Some(_) if table.tls(key).is_some() => {
                self.open(table, key, bytes, is_full, handler);
            }
            Some(_) => self.ingest_hello(table, key, bytes, handler),
        }
    }

    /// Acts on bytes that come before or with the end of a ClientHello.
    fn ingest_hello<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        bytes: &[u8],
        handler: &mut impl RequestHandler<D>,
    ) {
        let hello = self.with_kept(key, bytes);
        match hello::inspect(&hello) {
            Ok(Hello::Incomplete) if self.is_full && hello.len() == bytes.len() => {
                handler.refuse_unread(table, key);
            }
            Ok(Hello::Incomplete) => self.keep(key, &hello),
            Ok(Hello::Whole) if self.tls.budget > 0 && !self.tls.has_waiting() => {
                self.begin_handshake(table, key, &hello, handler);
            }
            Ok(Hello::Whole) => {
                self.keep(key, &hello);
                self.tls.waiting.push_back(key);
                if let Some(connection) = table.get_mut(key) {
                    connection.extras.insert(Extras::CLIENT_HELLO);
                }
            }
            Err(error) => self.reject_hello(table, key, error),
        }
    }

    fn begin_handshake<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        hello: &[u8],
        handler: &mut impl RequestHandler<D>,
    ) {
        let Some(config) = &self.tls.config else {
            return table.close(key, CloseReason::Rejected);
        };
        self.tls.budget = self.tls.budget.saturating_sub(1);
        match table.begin_tls(key, config) {
            Ok(()) => self.open(table, key, hello, false, handler),
            Err(error) => self.fail(table, key, error),
        }
    }

    /// Opens records, and acts on what was in them.
    fn open<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        ciphertext: &[u8],
        is_full: bool,
        handler: &mut impl RequestHandler<D>,
    ) {
        let mut plaintext = mem::take(&mut self.tls.plaintext);
        plaintext.clear();
        match table.open_records(key, ciphertext, &mut plaintext) {
            None => {}
            // What came before the error is not acted upon: its end is unknown.
            Some(Err(error)) => self.fail(table, key, error),
            Some(Ok(received)) => {
                if !plaintext.is_empty() {
                    self.ingest(table, key, &mut plaintext, is_full, handler);
                }
                self.after_records(table, key, received, handler);
            }
        }
        self.tls.plaintext = plaintext;
    }

    fn after_records<D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        received: Received,
        handler: &mut impl RequestHandler<D>,
    ) {
        let Some(connection) = table.get(key) else {
            return;
        };
        match (connection.phase, received) {
            // The peer reads on, and its last answer is still to be taken or to come.
            (Phase::Head { .. }, Received::Closed) if connection.blocked => {}
            (Phase::AwaitingKeys, _) => {}
            (Phase::Ending { .. } | Phase::Closed, _) => {}
            (_, Received::Closed) => table.close_both(key, CloseReason::Peer),
            (Phase::Pending, Received::Open) => {
                let waits = table.tls(key).map_or(0, |tls| tls.buffered());
                if waits > SESSION_RECORD_BYTES_MAX {
                    table.close(key, CloseReason::Rejected);
                }
            }
            (Phase::Open(session), Received::Open) => {
                let waits = table.tls(key).map_or(0, |tls| tls.buffered());
                match waits > SESSION_RECORD_BYTES_MAX {
                    true if session.may_talk() => handler.await_record(table, key),
                    true => table.close(key, CloseReason::Rejected),
                    false => {}
                }
            }
            (Phase::Head { .. }, Received::Open) => {}
        }
    }

    /// Ends a connection whose TLS has failed. The alert has been sent.
    fn fail<D: Driver>(&self, table: &mut ConnectionTable<D>, key: SlotKey, error: TlsError) {
        self.warn(table, key, error.name(), || error.to_string());
        table.end(key, CloseReason::Rejected);
    }

    /// Ends a connection whose first bytes are no ClientHello.
    fn reject_hello<D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        error: HelloError,
    ) {
        let (metric, name, reason) = match error {
            HelloError::PlainHttp => (
                Metric::TlsFailedPlain,
                "plain_http",
                "the client speaks HTTP without TLS; use https:// in its URL",
            ),
            HelloError::NotTls => (
                Metric::TlsFailedNotTls,
                "not_tls",
                "the client does not speak TLS",
            ),
            HelloError::TooLong => (
                Metric::TlsFailedTooLarge,
                "too_large",
                "the ClientHello is too long",
            ),
        };
        table.fail_handshake(key, metric);
        self.warn(table, key, name, || reason.to_owned());
        table.send_alert(key, &error.alert());
        table.end(key, CloseReason::Rejected);
    }

    fn warn<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        kind: &str,
        reason: impl FnOnce() -> String,
    ) {
        let now = table.clock.now;
        self.warnings.warn(now, "tls", kind, || {
            let client = table.origin(key).map(|origin| origin.address().to_string());
            let client = client.unwrap_or_else(|| "a client".to_owned());
            format!("a TLS connection of {client} failed: {}", reason())
        });
    }
}
