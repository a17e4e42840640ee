//! What a worker keeps of its WebSocket sessions.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use auth::Identity;
use reactor::{Driver, SlotKey, Source, Tick};
use wire::websocket::{CloseCode, Decoder, push_close};

use crate::limits::{CLIENT_MESSAGES_WINDOW, Limits, UNFINISHED_TIMEOUT};
use crate::replay::Replays;
use crate::stage::Stage;
use crate::table::{CloseReason, ConnectionTable, Extras};

/// What a worker keeps of its WebSocket sessions, by slot.
#[derive(Debug, Default)]
pub(crate) struct WebSockets {
    /// What has not arrived whole.
    unfinished: HashMap<u32, Unfinished>,
    /// Bytes of all that has not arrived whole.
    unfinished_bytes: usize,
    /// When what has not arrived whole was begun, in this order. Some of it has arrived since.
    begun: VecDeque<(Tick, SlotKey)>,
    /// Sessions whose client is to send a cursor, since when, in this order.
    awaiting_cursor: VecDeque<(Tick, SlotKey)>,
    /// Messages of each client in the current window of time.
    messages: HashMap<u32, u32>,
    window: Tick,
    /// Sessions that have not answered the last ping but one.
    silent: HashSet<u32>,
    /// Events that each client has published in the current window of time.
    publishes: HashMap<u32, u32>,
    /// Where clients are, if that is not where their connections come from.
    sources: HashMap<u32, Source>,
    /// Identities of sessions that have one: what may be followed later depends on them.
    identities: HashMap<u32, Box<Identity>>,
}

/// Message that has not arrived whole, or a part of a record of TLS with the next one.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) decoder: Decoder,
    pub(super) since: Tick,
}

impl Unfinished {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.decoder.kept_bytes()
    }
}

impl Stage for WebSockets {
    fn next_in(&self, now: Tick, _connections: usize) -> Option<Duration> {
        let first = [self.begun.front(), self.awaiting_cursor.front()];
        let (begun, _) = first.into_iter().flatten().min()?;
        Some(begun.after(UNFINISHED_TIMEOUT).since(now))
    }

    fn forget(&mut self, key: SlotKey) {
        let slot = key.index;
        self.take(slot);
        self.messages.remove(&slot);
        self.publishes.remove(&slot);
        self.sources.remove(&slot);
        self.silent.remove(&slot);
        self.identities.remove(&slot);
    }
}

impl WebSockets {
    /// Returns whether nothing is kept for any session.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
            && self.unfinished_bytes == 0
            && self.awaiting_cursor.is_empty()
            && self.messages.is_empty()
            && self.publishes.is_empty()
            && self.sources.is_empty()
            && self.silent.is_empty()
            && self.identities.is_empty()
    }

    /// Returns the memory of all that has not arrived whole.
    pub(crate) const fn unfinished_bytes(&self) -> usize {
        self.unfinished_bytes
    }

    /// Returns the memory of what has not arrived whole from a client.
    pub(crate) fn unfinished_bytes_of(&self, slot: u32) -> usize {
        self.unfinished.get(&slot).map_or(0, Unfinished::bytes)
    }

    /// Returns the memory of all that has not arrived whole, counted one by one.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn count_unfinished_bytes(&self) -> usize {
        self.unfinished.values().map(Unfinished::bytes).sum()
    }

    /// Closes a session whose message has not arrived whole, as there is no room for it.
    pub(crate) fn refuse_unfinished<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) {
        self.take(key.index);
        let reason = "the server has no room for unfinished messages; try again later";
        let code = CloseCode::TRY_AGAIN_LATER;
        close(table, key, code, reason, CloseReason::Rejected);
    }

    /// Keeps the identity behind a session.
    pub(crate) fn identify(&mut self, slot: u32, identity: Identity) {
        self.identities.insert(slot, Box::new(identity));
    }

    /// Returns the identity behind a session.
    pub(crate) fn identity(&self, slot: u32) -> Option<&Identity> {
        self.identities.get(&slot).map(Box::as_ref)
    }

    /// Keeps where the client of a session is, behind a proxy.
    pub(crate) fn set_source(&mut self, slot: u32, source: Source) {
        self.sources.insert(slot, source);
    }

    /// Returns where the client of a session is, if that was kept.
    pub(crate) fn source(&self, slot: u32) -> Option<Source> {
        self.sources.get(&slot).copied()
    }

    /// Takes what has not arrived whole from a client.
    pub(super) fn take(&mut self, slot: u32) -> Option<Unfinished> {
        let unfinished = self.unfinished.remove(&slot)?;
        self.unfinished_bytes -= unfinished.bytes();
        if self.unfinished.is_empty() {
            self.unfinished = HashMap::new();
        }
        Some(unfinished)
    }

    /// Keeps what has not arrived whole since a time, which is now if it `is_new`. Returns whether
    /// there was room for it.
    pub(super) fn keep(
        &mut self,
        key: SlotKey,
        decoder: Decoder,
        since: Tick,
        is_new: bool,
        limits: &Limits,
    ) -> bool {
        let unfinished = Unfinished { decoder, since };
        let bytes = unfinished.bytes();
        if self.unfinished_bytes + bytes > limits.unfinished_bytes_max {
            return false;
        }
        if is_new {
            self.begun.push_back((since, key));
        }
        self.unfinished_bytes += bytes;
        let before = self.unfinished.insert(key.index, unfinished);
        assert!(before.is_none(), "a client has one unfinished message");
        true
    }

    /// Notes that a record of TLS has not arrived whole, whose size a session must not leave
    /// waiting for long.
    pub(crate) fn await_record(&mut self, key: SlotKey, now: Tick, limits: &Limits) {
        if !self.unfinished.contains_key(&key.index) {
            self.keep(key, Decoder::default(), now, true, limits);
        }
    }

    /// Notes that the client of a session is to send its cursor.
    pub(crate) fn await_cursor(&mut self, key: SlotKey, now: Tick) {
        self.awaiting_cursor.push_back((now, key));
    }

    /// Counts a message of a client. Returns whether it may say so much.
    pub(super) fn count_message(&mut self, slot: u32, now: Tick, limits: &Limits) -> bool {
        if now.since(self.window) >= CLIENT_MESSAGES_WINDOW {
            self.messages = HashMap::new();
            self.publishes = HashMap::new();
            self.window = now;
        }
        let count = self.messages.entry(slot).or_insert(0);
        *count += 1;
        *count <= limits.client_messages_max
    }

    /// Counts an event that a client publishes, whose message is counted. Returns whether it may
    /// publish so many.
    pub(crate) fn count_publish(&mut self, slot: u32, limits: &Limits) -> bool {
        let count = self.publishes.entry(slot).or_insert(0);
        *count += 1;
        *count <= limits.client_publishes_max
    }

    /// Notes that a session gets a ping. Returns whether it is taken for alive: it has said
    /// something since the last ping but one.
    pub(crate) fn is_alive<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) -> bool {
        let Some(connection) = table.get_mut(key) else {
            return true;
        };
        if connection.extras.has(Extras::PINGED) {
            return self.silent.insert(key.index);
        }
        connection.extras.insert(Extras::PINGED);
        self.silent.remove(&key.index);
        true
    }

    /// Closes sessions whose messages have taken too long.
    pub(crate) fn end_late<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        replays: &Replays,
    ) {
        let now = table.clock.now;
        while let Some(&(since, key)) = self.awaiting_cursor.front()
            && since.after(UNFINISHED_TIMEOUT) <= now
        {
            self.awaiting_cursor.pop_front();
            if table.session(key).is_some() && replays.awaited(key).is_some() {
                let reason = "no cursor came in time; send {\"cursor\":\"...\"} at once";
                close(table, key, CloseCode::POLICY, reason, CloseReason::Timeout);
            }
        }
        while let Some(&(begun, key)) = self.begun.front() {
            if begun.after(UNFINISHED_TIMEOUT) > now {
                return;
            }
            self.begun.pop_front();
            let unfinished = self.unfinished.get(&key.index);
            if unfinished.is_some_and(|it| it.since == begun) {
                let reason = "a message did not arrive whole in time";
                close(table, key, CloseCode::POLICY, reason, CloseReason::Timeout);
            }
        }
        self.begun = VecDeque::new();
    }
}

/// Sends a close frame behind what a session is owed, and ends its connection.
pub(crate) fn close<D: Driver>(
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    code: CloseCode,
    text: &str,
    reason: CloseReason,
) {
    let mut out = table.scratch();
    push_close(code, text, &mut out);
    table.send(key, &out);
    table.put_back(out);
    table.end(key, reason);
}
