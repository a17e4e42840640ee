//! Ingress: bytes to requests.
//!
//! All connections of a worker are read into one block. Only the beginning of a head that has not
//! arrived whole is kept for its connection. What a request leads to is decided by the
//! [`RequestHandler`](crate::ingress::RequestHandler) that the worker passes in.

/// Input before the first request of a connection through a proxy.
mod proxy_header;
/// Input of TLS connections.
mod handshake;
/// Input that is kept.
mod kept;
/// What simulations see of it.
#[cfg(any(test, feature = "sim"))]
mod sim;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use reactor::{Driver, RateLimitedWarnings, Received, SlotKey};
use tls::ServerConfig;
use wire::head::{self, HEAD_BYTES_MAX, HeadError, Request};

use crate::limits::{BLOCK_BYTES, READS_PER_TURN, REQUESTS_PER_TURN};
use crate::settings::LiveSettings;
use crate::stage::Stage;
use crate::table::{CloseReason, ConnectionTable, Extras, Phase};
use handshake::TlsInput;
use kept::KeptInput;

/// Handler of the request heads that arrive.
pub(crate) trait RequestHandler<D: Driver> {
    /// Counts a connection as one of the client that a PROXY header names, or refuses it.
    fn admit_client(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, client: IpAddr);

    /// Handles a complete request. It may begin another phase of the connection, or end it.
    fn handle(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, request: &Request<'_>);

    /// Handles bytes of a session whose client may talk: frames of WebSocket, which are unmasked
    /// where they lie.
    fn receive(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, bytes: &mut [u8]);

    /// Notes that such a session has left a long record of TLS unfinished.
    fn await_record(&mut self, table: &mut ConnectionTable<D>, key: SlotKey);

    /// Ends a connection whose bytes are not a request.
    fn reject(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, error: HeadError);

    /// Refuses a connection whose input has not arrived whole, as there is no room to keep it.
    fn refuse_unread(&mut self, table: &mut ConnectionTable<D>, key: SlotKey);

    /// Ends a connection that must begin with a PROXY header and does not.
    fn reject_proxy_header(&mut self, table: &mut ConnectionTable<D>, key: SlotKey);
}

/// Input side of a worker.
#[derive(Debug)]
pub(crate) struct Ingress {
    block: Box<[u8]>,
    kept: KeptInput,
    /// Whether the buffers of the server have no room for input of further connections.
    is_full: bool,
    /// Connections with more to read, or more requests to answer, than one turn allows: no edge
    /// will announce them again. With whether their end is among it.
    unread: BTreeMap<SlotKey, bool>,
    tls: TlsInput,
    /// Warnings about connections that fail before their first request.
    warnings: RateLimitedWarnings,
}

impl Stage for Ingress {
    /// Connections must be read without a signal, or their handshakes begun.
    fn has_work(&self) -> bool {
        !self.unread.is_empty() || self.tls.has_waiting()
    }

    fn trim(&mut self) {
        self.tls.trim();
    }

    fn forget(&mut self, key: SlotKey) {
        self.drop_kept(key.index);
    }

    fn reload(&mut self, live: &Arc<LiveSettings>) {
        self.tls.config.clone_from(&live.tls);
    }
}

impl Ingress {
    pub(crate) fn new(tls: Option<ServerConfig>, warnings: RateLimitedWarnings) -> Self {
        Self {
            block: vec![0; BLOCK_BYTES].into_boxed_slice(),
            kept: KeptInput::default(),
            is_full: false,
            unread: BTreeMap::new(),
            tls: TlsInput::new(tls),
            warnings,
        }
    }

    /// Refuses input of further connections that has not arrived whole, or no longer.
    pub(crate) const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Returns the memory of the input that is kept.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept.bytes()
    }

    /// Returns the memory of the input that is kept for a slot.
    pub(crate) fn kept_bytes_of(&self, slot: u32) -> usize {
        self.kept.bytes_of(slot)
    }

    /// Removes the input that was kept for a connection.
    pub(crate) fn drop_kept(&mut self, index: u32) {
        self.kept.remove(index);
    }

    /// Continues the reads that exceeded the budgets of the last turn.
    pub(crate) fn read_on<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        handler: &mut impl RequestHandler<D>,
    ) {
        self.begin_waiting_handshakes(table, handler);
        for (key, ended) in mem::take(&mut self.unread) {
            if table.get(key).is_some() {
                self.resume(table, key, ended, handler);
            }
        }
    }

    /// Continues with requests that waited until earlier answers were sent, or for this turn.
    pub(crate) fn resume<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        ended: bool,
        handler: &mut impl RequestHandler<D>,
    ) {
        if !table.awaits_proxy_header(key)
            && !table.awaits_hello(key)
            && let Some(kept) = self.kept.remove(key.index)
        {
            self.read_heads(table, key, &kept, 0, handler);
        }
        self.read(table, key, ended, handler);
    }

    /// Reads what a connection has sent, within the budget of a turn. `ended` says that its end is
    /// among it, so that a short read is not the last.
    pub(crate) fn read<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        ended: bool,
        handler: &mut impl RequestHandler<D>,
    ) {
        let mut block = mem::take(&mut self.block);
        let more =
            (0..READS_PER_TURN).all(|_| self.read_block(table, key, &mut block, ended, handler));
        self.block = block;
        if more {
            self.postpone(key, ended);
        }
    }

    /// Reads one block. Returns whether there may be more that no edge will announce.
    fn read_block<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        block: &mut [u8],
        ended: bool,
        handler: &mut impl RequestHandler<D>,
    ) -> bool {
        let Some(connection) = table.get(key) else {
            return false;
        };
        // What a client sends after a request that is being worked on, or whose answer it does not
        // take, stays in the kernel.
        match connection.phase {
            Phase::Head { .. } if connection.blocked => return false,
            // Its requests so far have used up the turn.
            Phase::Head { .. } if self.unread.contains_key(&key) => return false,
            Phase::AwaitingKeys | Phase::Closed => return false,
            _ => {}
        }
        let extras = connection.extras;
        if extras.has(Extras::CLIENT_HELLO) {
            return false;
        }
        match table.receive(key, block) {
            Received::Bytes(count) => {
                let is_full = count == block.len();
                let bytes = &mut block[..count];
                match extras.has(Extras::PROXY_HEADER) {
                    true => self.ingest_proxy_header(table, key, bytes, is_full, handler),
                    false => self.ingest_input(table, key, bytes, is_full, handler),
                }
                return is_full || ended;
            }
            Received::Blocked => {}
            Received::Ended => on_ended(table, key),
            Received::Failed(_) => table.close(key, CloseReason::Reset),
        }
        false
    }

    /// Acts on bytes of a connection behind its PROXY header, if it has one. They filled the block
    /// if `is_full`.
    fn ingest_input<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        bytes: &mut [u8],
        is_full: bool,
        handler: &mut impl RequestHandler<D>,
    ) {
        match table.is_tls(key) {
            true => self.ingest_ciphertext(table, key, bytes, is_full, handler),
            false => self.ingest(table, key, bytes, is_full, handler),
        }
    }

    /// Acts on what a connection says, which filled the block if `is_full`.
    fn ingest<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        bytes: &mut [u8],
        is_full: bool,
        handler: &mut impl RequestHandler<D>,
    ) {
        let Some(connection) = table.get(key) else {
            return;
        };
        match connection.phase {
            Phase::Open(session) if session.may_talk() => handler.receive(table, key, bytes),
            // A stream is never followed by another answer: what a client says during it is
            // ignored. One that says a lot does not speak this protocol.
            Phase::Open(_) if is_full => table.close(key, CloseReason::Rejected),
            Phase::Open(_) | Phase::Ending { .. } | Phase::Closed => {}
            Phase::AwaitingKeys => {}
            Phase::Pending => self.keep_pipelined(table, key, bytes),
            Phase::Head { partial: false } => self.read_heads(table, key, bytes, 0, handler),
            Phase::Head { partial: true } => {
                let head = self.with_kept(key, bytes);
                let seen = head.len() - bytes.len();
                self.read_heads(table, key, &head, seen, handler);
            }
        }
    }

    /// Acts on each whole head in `input`, of which the first `seen` bytes are known to hold none,
    /// and keeps the rest: what has not arrived whole, and what must wait until the answers so far
    /// are taken.
    fn read_heads<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        mut input: &[u8],
        mut seen: usize,
        handler: &mut impl RequestHandler<D>,
    ) {
        let mut budget = REQUESTS_PER_TURN;
        while let Some(connection) = table.get_mut(key) {
            let Phase::Head { .. } = connection.phase else {
                return;
            };
            connection.phase = Phase::Head {
                partial: !input.is_empty(),
            };
            if input.is_empty() {
                return;
            }
            if connection.blocked {
                return self.keep(key, input);
            }
            if budget == 0 {
                self.keep(key, input);
                return self.postpone(key, true);
            }
            budget -= 1;
            match head::parse_from(input, seen) {
                Ok(Some(request)) => {
                    handler.handle(table, key, &request);
                    let phase = table.get(key).map(|connection| connection.phase);
                    if phase == Some(Phase::AwaitingKeys) {
                        // The request is handled again when the keys are there.
                        return self.keep(key, input);
                    }
                    input = &input[request.consumed..];
                    seen = 0;
                    if let Some(Phase::Open(session)) = phase
                        && session.may_talk()
                        && !input.is_empty()
                    {
                        return handler.receive(table, key, &mut input.to_vec());
                    }
                    if phase == Some(Phase::Pending) {
                        return self.keep_pipelined(table, key, input);
                    }
                }
                Ok(None) if self.is_full && seen == 0 => {
                    return handler.refuse_unread(table, key);
                }
                Ok(None) => return self.keep(key, input),
                Err(error) => return handler.reject(table, key, error),
            }
        }
    }

    /// Keeps what a client sends behind a poll that waits. It is read meanwhile, as the end of the
    /// connection would not be noticed otherwise.
    fn keep_pipelined<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        input: &[u8],
    ) {
        if input.is_empty() {
            return;
        }
        if self.kept.append(key.index, input) > HEAD_BYTES_MAX {
            table.close(key, CloseReason::Rejected);
        }
    }

    /// Returns what was kept of a connection's input, followed by `bytes`.
    fn with_kept<'a>(&mut self, key: SlotKey, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.kept.remove(key.index) {
            None => Cow::Borrowed(bytes),
            Some(mut kept) => {
                kept.extend_from_slice(bytes);
                Cow::Owned(kept)
            }
        }
    }

    fn keep(&mut self, key: SlotKey, input: &[u8]) {
        self.kept.insert(key.index, input.to_vec());
    }

    fn postpone(&mut self, key: SlotKey, ended: bool) {
        *self.unread.entry(key).or_insert(false) |= ended;
    }
}

fn on_ended<D: Driver>(table: &mut ConnectionTable<D>, key: SlotKey) {
    let Some(connection) = table.get(key) else {
        return;
    };
    let reason = match connection.phase {
        // The last answer is still to be taken; the peer has only ended its own side.
        Phase::Ending { .. } if connection.blocked => return,
        Phase::Ending { reason } => reason,
        _ => CloseReason::Peer,
    };
    table.close(key, reason);
}
