//! The worker: its connections and its turn.
//!
//! A connection that comes with its request, and goes with its answer, costs five system calls: accept,
//! receive, send, end, close; the answer and the end are one packet. Only one that stays, or whose
//! request is not there yet, is watched.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Accepted, Driver, Mailbox, Signal, Slab, SlotKey, Tick, Timing, Token, Wheel};

use super::answer::Answer;
use super::guess::Guess;
use super::known::Known;
use super::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN, BLOCK_BYTES, LINGER, LISTEN_BACKLOG};
use super::stats::{Metric, WorkerStats};
use crate::complaints::{Complaint, Complaints};
use crate::sweep::Sweep;

/// What other threads tell a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mail {
    /// To end.
    End,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waiting for a request, after so many bytes of the last one's body.
    Asking { skip: u64 },
    /// All answers are sent; the peer may end its side.
    Ending,
    /// Gone when the turn ends.
    Closed,
}

/// One connection. Owns no buffer.
#[derive(Debug)]
pub(super) struct Connection<S> {
    pub(super) socket: S,
    pub(super) phase: Phase,
    /// When it last moved.
    pub(super) moved: Tick,
    pub(super) watched: bool,
    pub(super) room_watched: bool,
    /// Its last answer is among what it is owed.
    pub(super) last: bool,
}

/// One thread's share of the server.
pub(super) struct Worker<D: Driver> {
    pub(super) driver: D,
    pub(super) mailbox: Arc<Mailbox<Mail>>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) answer: Answer,
    /// When the answer was last given its date.
    dated: Option<Tick>,
    pub(super) known: Known,
    pub(super) now: Tick,
    timing: Timing,
    pub(super) connections: Slab<Connection<D::Socket>>,
    pub(super) block: Box<[u8]>,
    /// Answers gathered for one send.
    pub(super) out: Vec<u8>,
    /// Heads that have begun to arrive, by slot.
    pub(super) partial: HashMap<u32, Vec<u8>>,
    /// Answers that a full socket did not take, by slot.
    pub(super) owed: HashMap<u32, Vec<u8>>,
    /// Connections with more to read than one turn allows.
    pub(super) unread: Vec<SlotKey>,
    pub(super) ending: bool,
    idle_timeout: Duration,
    paused_until: Option<Tick>,
    /// Whether somebody waits behind one who was accepted.
    others_wait: Guess,
    /// Whether requests come with their connections.
    asks_at_once: Guess,
    /// Finds who is silent.
    sweep: Sweep,
    /// Ends of those whose last answer is sent.
    deadlines: Wheel<SlotKey>,
    due: Vec<SlotKey>,
    complaints: Complaints,
    closing: Vec<SlotKey>,
    signals: Vec<Signal>,
}

impl<D: Driver> Worker<D> {
    pub(super) fn new(
        driver: D,
        mailbox: Arc<Mailbox<Mail>>,
        stats: Arc<WorkerStats>,
        answer: Answer,
        idle_timeout: Duration,
        complaints: Complaints,
    ) -> Self {
        Self {
            now: driver.now(),
            driver,
            mailbox,
            stats,
            answer,
            dated: None,
            known: Known::default(),
            timing: Timing::default(),
            connections: Slab::default(),
            block: vec![0; BLOCK_BYTES].into_boxed_slice(),
            out: Vec::new(),
            partial: HashMap::new(),
            owed: HashMap::new(),
            unread: Vec::new(),
            ending: false,
            idle_timeout,
            paused_until: None,
            others_wait: Guess::default(),
            asks_at_once: Guess::default(),
            sweep: Sweep::default(),
            deadlines: Wheel::default(),
            due: Vec::new(),
            complaints,
            closing: Vec::new(),
            signals: Vec::new(),
        }
    }

    /// Takes turns until the server has ended.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !(self.ending && self.connections.is_empty()) {
            self.turn()?;
        }
        Ok(())
    }

    /// One turn: wait, read and answer, accept, look after the time, close.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        self.driver.wait(timeout, &mut self.signals)?;
        self.mailbox.wake_up();
        let elapsed = self.driver.elapsed();
        self.now = Tick::default().after(elapsed);
        self.timing.begin(elapsed, self.signals.len(), &self.stats);
        // A millisecond late at most: no turn needs a reading of another clock.
        if self.dated != Some(self.now) {
            self.dated = Some(self.now);
            self.answer.date(self.driver.unix_seconds());
        }
        for key in mem::take(&mut self.unread) {
            self.read(key, true);
        }
        let signals = mem::take(&mut self.signals);
        for signal in &signals {
            match signal.token {
                Token::LISTENER => {
                    self.passed(Metric::StageSignals);
                    self.accept();
                    self.passed(Metric::StageAccept);
                }
                Token::MAILBOX => {}
                token => self.on_signal(token.key(), *signal),
            }
        }
        self.signals = signals;
        self.passed(Metric::StageSignals);
        if self.mailbox.take().contains(&Mail::End) {
            self.end_all();
        }
        self.passed(Metric::StageMail);
        self.meet_deadlines();
        self.passed(Metric::StageDeadlines);
        for key in mem::take(&mut self.closing) {
            self.remove(key);
        }
        self.passed(Metric::StageClosing);
        Ok(())
    }

    /// A stage of the turn is through.
    fn passed(&mut self, stage: Metric) {
        let clock = || self.driver.elapsed();
        self.timing.passed(stage, clock, &self.stats);
    }

    fn timeout(&mut self) -> Option<Duration> {
        if !self.unread.is_empty() || !self.mailbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        let elapsed = self.driver.elapsed();
        self.timing.rest(elapsed, &self.stats);
        let now = Tick::default().after(elapsed);
        let paused = self.paused_until.map(|until| until.since(now));
        let sweep = (!self.connections.is_empty()).then(|| self.sweep.next_in(now));
        let lingering = self.deadlines.sleep(now);
        [lingering, paused, sweep].into_iter().flatten().min()
    }

    fn on_signal(&mut self, key: SlotKey, signal: Signal) {
        if signal.writable && self.owed.contains_key(&key.index) {
            self.send_owed(key);
        }
        if signal.readable {
            self.read(key, signal.ended);
        }
    }

    /// Accepts the one who was announced, and others where there are likely some. Who is left waiting is
    /// announced again.
    fn accept(&mut self) {
        for number in 0..ACCEPTS_PER_TURN {
            let announced = number == 0;
            if !announced && !self.others_wait.is_worth_it() {
                return;
            }
            self.stats.add(Metric::Accepts, 1);
            let accepted = self.driver.accept();
            if !announced {
                let nobody = matches!(accepted, Accepted::Nobody);
                self.others_wait.note(!nobody);
            }
            match accepted {
                Accepted::Connection(socket, _) => self.admit(socket),
                Accepted::Nobody => return,
                Accepted::Gone => {}
                Accepted::Exhausted(errno) => return self.pause(errno.into()),
            }
        }
    }

    /// Reads before it watches, if the request has likely come with the connection.
    fn admit(&mut self, socket: D::Socket) {
        self.stats.add(Metric::Accepted, 1);
        self.stats.add(Metric::Connections, 1);
        let key = self.connections.insert(Connection {
            socket,
            phase: Phase::Asking { skip: 0 },
            moved: self.now,
            watched: false,
            room_watched: false,
            last: false,
        });
        if self.asks_at_once.is_worth_it() {
            let asked = self.read(key, false);
            self.asks_at_once.note(asked);
        }
        let Some(connection) = self.connection(key) else {
            return;
        };
        connection.watched = true;
        let socket = &self.connections.get_mut(key).expect("found above").socket;
        self.stats.add(Metric::Watches, 1);
        let watched = self.driver.watch(socket, key.into());
        if let Err(error) = watched {
            self.close(key);
            return self.pause(error);
        }
        if self.owed.contains_key(&key.index) {
            self.watch_writable(key);
        }
    }

    pub(super) fn watch_writable(&mut self, key: SlotKey) {
        if let Some(connection) = self.connections.get_mut(key)
            && connection.watched
            && !mem::replace(&mut connection.room_watched, true)
        {
            self.stats.add(Metric::Watches, 1);
            if self
                .driver
                .watch_writable(&connection.socket, key.into())
                .is_err()
            {
                self.close(key);
            }
        }
    }

    fn pause(&mut self, error: io::Error) {
        if self.paused_until.is_none() && !self.ending {
            self.stats.add(Metric::AcceptPauses, 1);
            self.driver.pause_accepting(true);
        }
        self.paused_until = Some(self.now.after(ACCEPT_PAUSE));
        self.complaints.note(self.now, Complaint::Descriptors, "", || {
            format!(
                "no room for another connection, accepting pauses: {error}; raise the limit on open \
                 files (ulimit -n, LimitNOFILE=) or use --workers N --private-fds"
            )
        });
    }

    fn meet_deadlines(&mut self) {
        if self.paused_until.is_some_and(|until| until <= self.now) {
            self.paused_until = None;
            self.driver.pause_accepting(false);
        }
        let mut due = mem::take(&mut self.due);
        self.deadlines.expire(self.now, &mut due);
        for key in due.drain(..) {
            let now = self.now;
            let Some(connection) = self.connection(key) else {
                continue;
            };
            let until = connection.moved.after(LINGER);
            if until <= now {
                self.close(key);
            } else {
                self.deadlines.add(until, key);
            }
        }
        self.due = due;
        self.let_the_silent_go();
    }

    fn let_the_silent_go(&mut self) {
        let (now, slots) = (self.now, self.connections.slots());
        for slot in self.sweep.due(now, slots, self.idle_timeout) {
            if let Some((key, connection)) = self.connections.at(slot)
                && connection.moved.after(self.idle_timeout) <= now
            {
                self.close(key);
            }
        }
    }

    /// Looks at a connection again when it has had time to end its side.
    pub(super) fn linger(&mut self, key: SlotKey) {
        self.deadlines.add(self.now.after(LINGER), key);
    }

    /// Answers who has asked by now, lets go of all others, and accepts nobody any more.
    fn end_all(&mut self) {
        self.ending = true;
        self.paused_until = None;
        self.accept_the_waiting();
        self.driver.stop_accepting();
        for slot in 0..self.connections.slots() {
            if let Some((key, _)) = self.connections.at(slot) {
                self.read(key, true);
                self.end_one(key);
            }
        }
    }

    /// They would be reset with the listener, and may have asked.
    fn accept_the_waiting(&mut self) {
        for _ in 0..LISTEN_BACKLOG {
            self.stats.add(Metric::Accepts, 1);
            match self.driver.accept() {
                Accepted::Connection(socket, _) => self.admit(socket),
                Accepted::Gone => {}
                Accepted::Nobody | Accepted::Exhausted(_) => return,
            }
        }
    }

    fn end_one(&mut self, key: SlotKey) {
        let owed = self.owed.contains_key(&key.index);
        let Some(connection) = self.connection(key) else {
            return;
        };
        match connection.phase {
            Phase::Asking { .. } if owed => {
                // It goes when its answers have.
                connection.last = true;
                self.linger(key);
            }
            Phase::Asking { .. } => self.close(key),
            // It has its last answer, and its time.
            Phase::Ending | Phase::Closed => {}
        }
    }

    /// The connection named, unless it is gone or about to go.
    pub(super) fn connection(&mut self, key: SlotKey) -> Option<&mut Connection<D::Socket>> {
        self.connections
            .get_mut(key)
            .filter(|connection| connection.phase != Phase::Closed)
    }

    /// Closes a connection. One that was never watched goes at once; for others a signal may be
    /// under way in this batch.
    pub(super) fn close(&mut self, key: SlotKey) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        connection.phase = Phase::Closed;
        if connection.watched {
            self.closing.push(key);
        } else {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: SlotKey) {
        self.partial.remove(&key.index);
        self.owed.remove(&key.index);
        self.connections.remove(key);
        self.stats.take(Metric::Connections, 1);
        self.stats.add(Metric::Closes, 1);
    }
}
