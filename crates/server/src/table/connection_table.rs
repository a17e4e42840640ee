//! The table itself: connections from accept to close.

use std::io;
use std::mem;
use std::sync::Arc;

use reactor::{Clock, Driver, Interest, Received, Slab, SlotKey, TcpInfo, Tenths, Wheel};

use super::backlog::Backlogs;
use super::connection::{CloseReason, Connection, Extras, Phase};
use super::packed_address::PackedAddress;
use super::recent_gaps::RecentGaps;
use super::seal::SealedBatch;
use super::sparse_slots::SparseSlots;
use crate::limits::Limits;
use crate::open_session::Session;
use crate::settings::LiveSettings;
use crate::stats::{Metric, WorkerStats};

/// Connections of a worker, from accept to close.
pub(crate) struct ConnectionTable<D: Driver> {
    pub(crate) driver: D,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) clock: Clock,
    pub(crate) limits: &'static Limits,
    pub(super) slots: Slab<Connection<D::Socket>>,
    pub(super) backlogs: Backlogs,
    /// Each from its ClientHello on.
    pub(super) tls: SparseSlots<tls::Connection>,
    /// Memory of unfinished handshakes and records.
    pub(super) tls_input_bytes: usize,
    /// Clients that proxies have named in PROXY headers.
    pub(super) clients: SparseSlots<PackedAddress>,
    pub(super) deadlines: Wheel<SlotKey>,
    /// Settings in force, for all stages. A deadline that is armed stays when a reload brings an
    /// earlier one.
    pub(crate) live: Arc<LiveSettings>,
    /// Working memory: an answer's bytes.
    pub(super) scratch: Vec<u8>,
    /// Working memory: records for one system call.
    pub(super) batch: SealedBatch,
    /// Whether there is a history to catch up from.
    pub(super) has_history: bool,
    pub(super) behind: Vec<Behind>,
    pub(super) recent_gaps: RecentGaps,
    /// Connections whose sockets are full, and for whose watch the kernel had no memory.
    pub(super) unwatched: Vec<SlotKey>,
    pub(super) ended: Vec<Ended>,
    pub(super) closed: Vec<Closed>,
}

/// Connection that ended in this turn and is still logged in.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) key: SlotKey,
    /// The session that was open, if one was.
    pub(crate) session: Option<Session>,
    pub(crate) reason: CloseReason,
}

/// Connection that is closed and removed when the turn ends. Its slot stays taken until then: a
/// later signal of the same batch may name it, and must find it closed.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) key: SlotKey,
    reason: CloseReason,
}

/// Session that fell behind in this turn: some of its events were dropped, which the history has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind {
    pub(crate) key: SlotKey,
    /// The lowest position of the events that were dropped.
    pub(crate) first: u64,
    /// Events that were dropped, and count as queued.
    pub(crate) events: u32,
}

impl<D: Driver> ConnectionTable<D> {
    pub(crate) fn new(
        driver: D,
        stats: Arc<WorkerStats>,
        live: Arc<LiveSettings>,
        limits: &'static Limits,
        has_history: bool,
    ) -> Self {
        Self {
            clock: Clock::new(&driver),
            driver,
            stats,
            slots: Slab::default(),
            limits,
            backlogs: Backlogs::new(limits),
            tls: SparseSlots::new(limits),
            tls_input_bytes: 0,
            clients: SparseSlots::new(limits),
            deadlines: Wheel::default(),
            live,
            scratch: Vec::new(),
            batch: SealedBatch::default(),
            has_history,
            behind: Vec::new(),
            recent_gaps: RecentGaps::default(),
            unwatched: Vec::new(),
            ended: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Adds a connection that has just been accepted. It is not reported before it is
    /// [watched](Self::watch).
    pub(crate) fn open(&mut self, socket: D::Socket) -> SlotKey {
        self.stats.add(Metric::Accepted, 1);
        self.stats.add(Metric::Connections, 1);
        self.slots.insert(Connection {
            socket,
            since: Tenths::of(self.clock.now),
            owed: None,
            phase: Phase::Head { partial: false },
            due: Tenths::NEVER,
            blocked: false,
            watched: None,
            extras: Extras::NONE,
        })
    }

    /// Starts to report the connection, unless it was closed already.
    ///
    /// # Errors
    ///
    /// When the kernel's memory for watches has run out. The connection is closed.
    pub(crate) fn watch(&mut self, key: SlotKey) -> io::Result<()> {
        let Some(connection) = live(&mut self.slots, key) else {
            return Ok(());
        };
        let interest = match connection.blocked {
            false => Interest::Readable,
            true => Interest::ReadableAndWritable,
        };
        assert!(connection.watched.is_none(), "a connection is watched once");
        self.stats.add(Metric::Watches, 1);
        match self.driver.watch(&connection.socket, key.into(), interest) {
            Ok(()) => {
                connection.watched = Some(interest);
                self.arm(key);
                Ok(())
            }
            Err(error) => {
                self.close(key, CloseReason::Rejected);
                Err(error)
            }
        }
    }

    /// The connection named, unless it is closed.
    pub(crate) fn get(&self, key: SlotKey) -> Option<&Connection<D::Socket>> {
        self.slots
            .get(key)
            .filter(|connection| connection.phase != Phase::Closed)
    }

    /// The connection named, unless it is closed.
    pub(crate) fn get_mut(&mut self, key: SlotKey) -> Option<&mut Connection<D::Socket>> {
        live(&mut self.slots, key)
    }

    /// Returns whether a connection is counted against `max_connections`.
    pub(crate) fn is_admitted(&self, key: SlotKey) -> bool {
        self.has(key, Extras::ADMITTED)
    }

    /// Returns whether a connection that is not closed has a mark.
    pub(crate) fn has(&self, key: SlotKey, mark: Extras) -> bool {
        self.get(key).is_some_and(|it| it.extras.has(mark))
    }

    /// Returns the session that is open on a connection.
    pub(crate) fn session(&self, key: SlotKey) -> Option<Session> {
        self.get(key)?.phase.session()
    }

    /// The connection in a slot, with its name.
    pub(crate) fn at(&self, index: u32) -> Option<(SlotKey, &Connection<D::Socket>)> {
        self.slots.at(index)
    }

    /// Returns the number of slots. The slot of every connection is below it.
    pub(crate) const fn slots(&self) -> u32 {
        self.slots.slots()
    }

    /// Returns whether there are no connections.
    pub(crate) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of connections.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there is a history to catch up from.
    pub(crate) const fn has_history(&self) -> bool {
        self.has_history
    }

    /// Returns the backlogs.
    pub(crate) const fn backlogs(&self) -> &Backlogs {
        &self.backlogs
    }

    /// Returns the latest notices of lost events.
    pub(crate) const fn recent_gaps(&self) -> &RecentGaps {
        &self.recent_gaps
    }

    /// Receives from a connection into `block`.
    pub(crate) fn receive(&mut self, key: SlotKey, block: &mut [u8]) -> Received {
        let Some(connection) = self.slots.get(key) else {
            return Received::Blocked;
        };
        self.stats.add(Metric::Receives, 1);
        let received = self.driver.recv(&connection.socket, block);
        if let Received::Bytes(count) = received {
            self.stats.add(Metric::BytesRead, count as u64);
        }
        received
    }

    /// Returns the kernel's byte counts of a connection.
    pub(crate) fn tcp_info(&mut self, key: SlotKey) -> Option<TcpInfo> {
        self.driver.tcp_info(&self.slots.get(key)?.socket)
    }

    /// Begins a phase of a connection.
    pub(crate) fn enter(&mut self, key: SlotKey, phase: Phase) {
        let since = Tenths::of(self.clock.now);
        if let Some(connection) = self.get_mut(key) {
            let before = connection.phase;
            assert!(phase.may_follow(before), "{phase:?} after {before:?}");
            connection.phase = phase;
            connection.since = since;
            self.arm(key);
        }
    }

    /// Ends a connection gracefully: sent bytes arrive, then this side ends, then the peer ends its
    /// side or a time limit passes.
    pub(crate) fn end(&mut self, key: SlotKey, reason: CloseReason) {
        let since = Tenths::of(self.clock.now);
        let Some(connection) = live(&mut self.slots, key) else {
            return;
        };
        let phase = mem::replace(&mut connection.phase, Phase::Ending { reason });
        connection.since = since;
        let blocked = connection.blocked;
        self.end_session(key, phase, reason);
        match blocked {
            false => self.shutdown_write(key),
            true => self.arm(key),
        }
    }

    /// Ends this side of a connection after everything is sent, `close_notify` included. The peer
    /// then ends its own.
    pub(crate) fn shutdown_write(&mut self, key: SlotKey) {
        let since = Tenths::of(self.clock.now);
        let Some(connection) = self.slots.get_mut(key) else {
            return;
        };
        connection.since = since;
        if connection.extras.has(Extras::TLS) && !self.send_close_notify(key) {
            // It is tried again when the backlog is empty.
            return;
        }
        let Some(connection) = self.slots.get(key) else {
            return;
        };
        self.stats.add(Metric::Shutdowns, 1);
        self.driver.shutdown_write(&connection.socket);
        self.arm(key);
    }

    /// Closes a connection; its slot is free after the turn.
    pub(crate) fn close(&mut self, key: SlotKey, reason: CloseReason) {
        let Some(connection) = live(&mut self.slots, key) else {
            return;
        };
        let phase = mem::replace(&mut connection.phase, Phase::Closed);
        let blocked = connection.blocked;
        self.reset_if_unread(key, reason, blocked);
        self.end_session(key, phase, reason);
        self.closed.push(Closed { key, reason });
    }

    /// Keeps the session of a connection whose last phase was `phase`, if it had one, for logout.
    fn end_session(&mut self, key: SlotKey, phase: Phase, reason: CloseReason) {
        let session = phase.session();
        let connection = self.slots.get(key);
        if session.is_some() || connection.is_some_and(|it| it.extras.has(Extras::LOGIN)) {
            self.ended.push(Ended {
                key,
                session,
                reason,
            });
        }
    }

    /// Removes a mark from a connection, which may be closed. Returns whether it had it.
    pub(crate) fn clear(&mut self, key: SlotKey, mark: Extras) -> bool {
        let Some(connection) = self.slots.get_mut(key) else {
            return false;
        };
        let had = connection.extras.has(mark);
        connection.extras.remove(mark);
        had
    }

    /// Takes the connections that have ended and must be logged out.
    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        mem::take(&mut self.ended)
    }

    /// Takes the connections that were closed, to be [removed](Self::remove).
    pub(crate) fn take_closed(&mut self) -> Vec<Closed> {
        mem::take(&mut self.closed)
    }

    /// Frees the slot of a connection that was closed in this turn. Returns whether it was
    /// admitted.
    pub(crate) fn remove(&mut self, closed: &Closed) -> bool {
        let &Closed { key, reason } = closed;
        self.stats.add(reason.metric(), 1);
        if let Some(backlog) = self.backlogs.remove(key.index) {
            self.stats.take(Metric::BacklogSessions, 1);
            self.stats
                .take(Metric::BacklogBytes, backlog.bytes() as u64);
            self.stats
                .add(Metric::DeliveriesLost, backlog.events() as u64);
        }
        self.stats.add(Metric::Closes, 1);
        // Dropping the record closes its socket.
        let Some(removed) = self.slots.remove(key) else {
            return false;
        };
        assert!(
            removed.phase == Phase::Closed,
            "the slot of an open connection"
        );
        assert!(
            !removed.extras.is_logged_in(),
            "a session was not logged out"
        );
        if removed.extras.has(Extras::TLS) {
            self.remove_tls(key, reason);
        }
        if removed.extras.has(Extras::PROXIED) {
            self.clients.remove(key.index);
        }
        removed.extras.has(Extras::ADMITTED)
    }

    /// Clears the places of a group of sessions among those with frames. A loop without other work,
    /// so that the processor fetches several records at a time.
    pub(crate) fn clear_owed(&mut self, keys: impl Iterator<Item = SlotKey>) {
        for key in keys {
            if let Some(connection) = self.slots.get_mut(key) {
                connection.owed = None;
            }
        }
    }
}

/// The connection named, unless it is closed. Apart from the table, so that its other fields can be
/// used.
pub(super) fn live<S>(slots: &mut Slab<Connection<S>>, key: SlotKey) -> Option<&mut Connection<S>> {
    slots
        .get_mut(key)
        .filter(|connection| connection.phase != Phase::Closed)
}
