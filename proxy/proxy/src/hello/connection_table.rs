//! Table of all connections of a worker, with what each stage needs: the driver, the counters, the
//! timers, the clock, and the bytes kept for connections. Sends, watches and closes. Does not
//! depend on any stage.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Clock, Driver, Interest, Received, Sent, Slab, SlotKey, Tick, Wheel};

use super::limits::LINGER;
use super::metrics::{Metric, WorkerCounters};

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The next request is awaited, after `body_left` more bytes of the last one's body.
    AwaitingRequest { body_left: u64 },
    /// All answers are sent, and this side has ended. The peer has time to end its side.
    Lingering,
    /// Removed when the turn ends.
    Closed,
}

/// What happens to a connection after the answers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterAnswer {
    /// It waits for the next request.
    KeepAlive,
    /// It is closed at once: no other request follows, and all received bytes were parsed.
    Close,
    /// It lingers: unparsed bytes or a body follow the request, and the peer must be able to send
    /// them.
    Linger,
}

/// Connection of a client. Owns no buffer.
#[derive(Debug)]
pub(super) struct Connection<S> {
    socket: S,
    pub(super) phase: Phase,
    /// When bytes last moved.
    pub(super) last_activity: Tick,
    /// Events that the poller reports; `None` while it is not watched.
    watched: Option<Interest>,
    /// Its last answer is among its unsent bytes.
    is_last: bool,
}

/// Table of all connections of a worker. Lives as long as the worker.
pub(super) struct ConnectionTable<D: Driver> {
    pub(super) driver: D,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) clock: Clock,
    connections: Slab<Connection<D::Socket>>,
    /// Received bytes that wait for more bytes or for room for earlier answers. By slot.
    partial: HashMap<u32, Vec<u8>>,
    /// Answers that did not fit into a full socket. By slot.
    unsent: HashMap<u32, Vec<u8>>,
    timers: Wheel<SlotKey>,
    closed: Vec<SlotKey>,
}

impl<D: Driver> ConnectionTable<D> {
    /// Makes an empty table.
    pub(super) fn new(driver: D, counters: Arc<WorkerCounters>) -> Self {
        Self {
            clock: Clock::new(&driver),
            driver,
            counters,
            connections: Slab::default(),
            partial: HashMap::new(),
            unsent: HashMap::new(),
            timers: Wheel::default(),
            closed: Vec::new(),
        }
    }

    /// Returns the time of this turn.
    pub(super) const fn now(&self) -> Tick {
        self.clock.now
    }

    /// Returns whether there are no connections.
    pub(super) const fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the number of slots, used or not.
    pub(super) const fn slots(&self) -> u32 {
        self.connections.slots()
    }

    /// Adds a connection, which is not watched yet.
    pub(super) fn insert(&mut self, socket: D::Socket) -> SlotKey {
        self.counters.add(Metric::Accepted, 1);
        self.counters.add(Metric::Connections, 1);
        self.connections.insert(Connection {
            socket,
            phase: Phase::AwaitingRequest { body_left: 0 },
            last_activity: self.clock.now,
            watched: None,
            is_last: false,
        })
    }

    /// Returns the connection with this key, unless it is closed.
    pub(super) fn get(&mut self, key: SlotKey) -> Option<&mut Connection<D::Socket>> {
        self.connections
            .get_mut(key)
            .filter(|connection| connection.phase != Phase::Closed)
    }

    /// The connection in a slot, unless it is closed.
    pub(super) fn at(&self, slot: u32) -> Option<(SlotKey, &Connection<D::Socket>)> {
        self.connections
            .at(slot)
            .filter(|(_, connection)| connection.phase != Phase::Closed)
    }

    /// Begins to watch a connection: for room to send too, if it is full already.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::watch`].
    pub(super) fn watch(&mut self, key: SlotKey) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(());
        };
        if connection.phase == Phase::Closed {
            return Ok(());
        }
        let interest = match self.unsent.contains_key(&key.index) {
            true => Interest::ReadableAndWritable,
            false => Interest::Readable,
        };
        connection.watched = Some(interest);
        self.counters.add(Metric::Watches, 1);
        self.driver.watch(&connection.socket, key.into(), interest)
    }

    /// Receives into `block`.
    pub(super) fn receive(&mut self, key: SlotKey, block: &mut [u8]) -> Received {
        let Some(connection) = self.connections.get(key) else {
            return Received::Ended;
        };
        self.counters.add(Metric::Receives, 1);
        let received = self.driver.recv(&connection.socket, block);
        if let Received::Bytes(count) = received {
            self.counters.add(Metric::BytesRead, count as u64);
        }
        received
    }

    /// Keeps bytes that were received for later.
    pub(super) fn keep(&mut self, key: SlotKey, bytes: Vec<u8>) {
        if self.get(key).is_some() {
            self.partial.insert(key.index, bytes);
        }
    }

    /// Takes the bytes that were kept.
    pub(super) fn take_kept(&mut self, key: SlotKey) -> Option<Vec<u8>> {
        // Usually nothing is kept, and an empty map need not hash.
        if self.partial.is_empty() {
            return None;
        }
        self.partial.remove(&key.index)
    }

    /// Whether a full socket has left answers unsent.
    pub(super) fn has_unsent(&self, key: SlotKey) -> bool {
        self.unsent.contains_key(&key.index)
    }

    /// Sends answers, and keeps what a full socket does not take.
    pub(super) fn send(&mut self, key: SlotKey, answers: &[u8], after: AfterAnswer) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if answers.is_empty() || connection.phase == Phase::Closed {
            return;
        }
        connection.is_last = after != AfterAnswer::KeepAlive;
        connection.last_activity = self.clock.now;
        self.counters.add(Metric::Sends, 1);
        let sent = match after {
            AfterAnswer::KeepAlive => self.driver.send(&connection.socket, &[answers]),
            AfterAnswer::Close | AfterAnswer::Linger => self
                .driver
                .send_and_shutdown(&connection.socket, &[answers]),
        };
        let sent = match sent {
            Sent::Bytes(count) => count,
            Sent::Blocked => 0,
            Sent::Failed(_) => return self.close(key),
        };
        self.counters.add(Metric::BytesWritten, sent as u64);
        if sent < answers.len() {
            self.unsent.insert(key.index, answers[sent..].to_vec());
            return self.watch_writable(key);
        }
        match after {
            AfterAnswer::KeepAlive => {}
            AfterAnswer::Close => {
                self.counters.add(Metric::Shutdowns, 1);
                self.close(key);
            }
            AfterAnswer::Linger => {
                self.counters.add(Metric::Shutdowns, 1);
                self.linger(key);
            }
        }
    }

    /// Sends unsent answers. Returns whether the connection can continue with requests.
    pub(super) fn flush(&mut self, key: SlotKey) -> bool {
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        let Some(mut unsent) = self.unsent.remove(&key.index) else {
            return false;
        };
        while !unsent.is_empty() {
            self.counters.add(Metric::Sends, 1);
            match self.driver.send(&connection.socket, &[&unsent]) {
                Sent::Bytes(count) => {
                    self.counters.add(Metric::BytesWritten, count as u64);
                    connection.last_activity = self.clock.now;
                    unsent.drain(..count);
                }
                Sent::Blocked => {
                    self.unsent.insert(key.index, unsent);
                    return false;
                }
                Sent::Failed(_) => {
                    self.close(key);
                    return false;
                }
            }
        }
        if connection.is_last {
            self.counters.add(Metric::Shutdowns, 1);
            self.driver.shutdown_write(&connection.socket);
            self.linger(key);
            return false;
        }
        true
    }

    /// Ends a connection after its unsent answers, or at once if there are none.
    pub(super) fn end(&mut self, key: SlotKey) {
        let has_unsent = self.has_unsent(key);
        let Some(connection) = self.get(key) else {
            return;
        };
        match connection.phase {
            Phase::AwaitingRequest { .. } if has_unsent => {
                connection.is_last = true;
                self.arm_timer(key, LINGER);
            }
            Phase::AwaitingRequest { .. } => self.close(key),
            // Its last answer is sent, and its timer runs.
            Phase::Lingering | Phase::Closed => {}
        }
    }

    /// Starts to wait for the peer's end: everything is sent, and this side has ended.
    fn linger(&mut self, key: SlotKey) {
        let now = self.clock.now;
        if let Some(connection) = self.get(key) {
            connection.phase = Phase::Lingering;
            connection.last_activity = now;
            self.arm_timer(key, LINGER);
        }
    }

    /// Watches a connection for room to send, unless it already is. A connection that is not
    /// watched at all will be [later](Self::watch).
    fn watch_writable(&mut self, key: SlotKey) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.watched != Some(Interest::Readable) {
            return;
        }
        connection.watched = Some(Interest::ReadableAndWritable);
        self.counters.add(Metric::Watches, 1);
        let watched = self.driver.watch_writable(&connection.socket, key.into());
        if watched.is_err() {
            self.close(key);
        }
    }

    /// Arms a timer. It is never cancelled: when it fires, the connection's phase decides.
    pub(super) fn arm_timer(&mut self, key: SlotKey, delay: Duration) {
        self.timers.add(self.clock.now.after(delay), key);
    }

    /// Returns the time until a timer fires.
    pub(super) fn next_timer(&self, now: Tick) -> Option<Duration> {
        self.timers.sleep(now)
    }

    /// Moves the connections whose timers have fired to `due`.
    pub(super) fn expire(&mut self, due: &mut Vec<SlotKey>) {
        self.timers.expire(self.clock.now, due);
    }

    /// Closes a connection. It is removed at the end of the turn, because signals of this batch may
    /// refer to it; a connection that was never watched is removed at once.
    pub(super) fn close(&mut self, key: SlotKey) {
        let Some(connection) = self.get(key) else {
            return;
        };
        connection.phase = Phase::Closed;
        if connection.watched.is_some() {
            self.closed.push(key);
        } else {
            self.remove(key);
        }
    }

    /// Removes the connections that were closed in this turn. Returns whether there were any.
    pub(super) fn remove_closed(&mut self) -> bool {
        let mut closed = mem::take(&mut self.closed);
        let any = !closed.is_empty();
        for key in closed.drain(..) {
            self.remove(key);
        }
        self.closed = closed;
        any
    }

    fn remove(&mut self, key: SlotKey) {
        for bytes in [&mut self.partial, &mut self.unsent] {
            if !bytes.is_empty() {
                bytes.remove(&key.index);
            }
        }
        self.connections.remove(key);
        self.counters.take(Metric::Connections, 1);
        self.counters.add(Metric::Closes, 1);
    }
}
