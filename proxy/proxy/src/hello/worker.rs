//! The worker. No other module knows all stages and their order.
//!
//! A connection that arrives with its request and is closed after the answer costs five system
//! calls: accept, receive, send, shutdown, close; the answer and the end share a packet. Only a
//! connection that stays open, or whose request has not arrived yet, is watched.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{
    Accepted, Clock, Driver, EventLoop, Handler, ListenerOptions, Mailbox, RateLimitedWarnings,
    Signal, SlotKey, Tick, Timing,
};

use super::accept::Admission;
use super::answer::Answer;
use super::connection_table::ConnectionTable;
use super::deadlines::Deadlines;
use super::exchange::Exchange;
use super::limits::{ACCEPTS_PER_TURN, LAST_ACCEPTS_MAX};
use super::metrics::{Metric, WorkerCounters};

/// Command from another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerCommand {
    /// Answer the requests that have arrived, and end.
    End,
}

/// State that a worker shares with other threads, and its settings.
pub(super) struct WorkerConfig {
    pub(super) mailbox: Arc<Mailbox<WorkerCommand>>,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) warnings: RateLimitedWarnings,
    pub(super) answer: Answer,
    pub(super) idle_timeout: Duration,
}

/// Worker thread of the server.
pub(super) struct Worker<D: Driver> {
    mailbox: Arc<Mailbox<WorkerCommand>>,
    pub(super) table: ConnectionTable<D>,
    admission: Admission<D::Listener>,
    exchange: Exchange,
    deadlines: Deadlines,
    /// Connections with more to read than the budget of one turn.
    unread: Vec<SlotKey>,
    is_ending: bool,
}

impl<D: Driver> Worker<D> {
    /// Makes a worker without a listener.
    pub(super) fn new(driver: D, config: WorkerConfig) -> Self {
        let mut exchange = Exchange::new(config.answer);
        exchange.set_date(driver.unix_seconds());
        Self {
            mailbox: config.mailbox,
            table: ConnectionTable::new(driver, config.counters),
            admission: Admission::new(config.warnings),
            exchange,
            deadlines: Deadlines::new(config.idle_timeout),
            unread: Vec::new(),
            is_ending: false,
        }
    }

    /// Opens the worker's listener.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::listen`].
    pub(super) fn listen(
        &mut self,
        address: SocketAddr,
        options: &ListenerOptions,
    ) -> io::Result<()> {
        let (acceptor, driver) = (&mut self.admission.acceptor, &mut self.table.driver);
        acceptor.open(driver, (), |driver, token| {
            driver.listen(address, options, token)
        })
    }

    /// Runs the event loop until the server has ended.
    ///
    /// # Errors
    ///
    /// When the poller fails, which means a bug in the program.
    pub(super) fn run(mut self) -> io::Result<()> {
        EventLoop::new(&self.table.driver).run(&mut self)
    }

    /// Adds a connection. Reads before watching it if its request has probably arrived already.
    fn admit(&mut self, socket: D::Socket) {
        let key = self.table.insert(socket);
        if self.admission.request_ready.should_try() {
            let found = self.read(key, false);
            self.admission.request_ready.record(found);
        }
        if let Err(error) = self.table.watch(key) {
            // The kernel has no memory for another watch: treated like a lack of descriptors.
            self.table.close(key);
            let (counters, now) = (&*self.table.counters, self.table.clock.now);
            let acceptor = &mut self.admission.acceptor;
            acceptor.pause(&mut self.table.driver, counters, now, &error);
        }
    }

    /// Reads and answers. Returns whether there was something to read.
    fn read(&mut self, key: SlotKey, may_have_ended: bool) -> bool {
        let read = self.exchange.read(&mut self.table, key, may_have_ended);
        if read.more {
            self.unread.push(key);
        }
        read.found
    }

    /// Answers the requests that have arrived, closes all other connections, and stops accepting.
    fn end(&mut self) {
        self.is_ending = true;
        self.exchange.drain();
        self.accept_waiting();
        self.admission
            .acceptor
            .close(&mut self.table.driver, |_| false);
        for slot in 0..self.table.slots() {
            if let Some((key, _)) = self.table.at(slot) {
                self.read(key, true);
                self.table.end(key);
            }
        }
    }

    /// Accepts the clients that wait: closing the listener would reset them, and their requests may
    /// have arrived.
    fn accept_waiting(&mut self) {
        let listeners = self.admission.acceptor.listeners().iter();
        let ids: Vec<u32> = listeners.map(|open| open.id).collect();
        for id in ids {
            for _ in 0..LAST_ACCEPTS_MAX {
                match self.admission.accept(&mut self.table, id) {
                    Accepted::Connection(socket, _) => self.admit(socket),
                    Accepted::Gone => {}
                    Accepted::Nobody | Accepted::Exhausted(_) => break,
                }
            }
        }
    }

    /// Marks the end of a stage of the turn.
    fn passed(&self, timing: &mut Timing, stage: Metric) {
        let clock = || self.table.driver.elapsed();
        timing.passed(stage, clock, &*self.table.counters);
    }
}

impl<D: Driver> Handler for Worker<D> {
    type Driver = D;
    type Counters = WorkerCounters;

    fn driver(&mut self) -> &mut D {
        &mut self.table.driver
    }

    fn counters(&self) -> &WorkerCounters {
        &self.table.counters
    }

    fn may_sleep(&self) -> bool {
        self.mailbox.may_sleep()
    }

    fn wake_up(&self) {
        self.mailbox.wake_up();
    }

    fn has_work(&self) -> bool {
        !self.unread.is_empty()
    }

    fn next_deadline(&self, now: Tick) -> Option<Duration> {
        let deadline = self.deadlines.next_in(&self.table, now);
        let resume = self.admission.acceptor.resume_in(now);
        deadline.into_iter().chain(resume).min()
    }

    fn begin(&mut self, clock: Clock) {
        self.table.clock = clock;
        self.exchange.set_date(clock.unix_seconds);
        for key in mem::take(&mut self.unread) {
            self.read(key, true);
        }
    }

    fn on_listener(&mut self, id: u32) {
        for number in 0..ACCEPTS_PER_TURN {
            let table = &mut self.table;
            let accepted = match number {
                0 => self.admission.accept(table, id),
                _ => self.admission.accept_another(table, id),
            };
            match accepted {
                Accepted::Connection(socket, _) => self.admit(socket),
                Accepted::Gone => {}
                Accepted::Nobody | Accepted::Exhausted(_) => return,
            }
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        let key = signal.token.key();
        if signal.writable && self.table.flush(key) {
            // Requests that arrived in the meantime were kept, or not read at all.
            self.exchange.resume(&mut self.table, key);
            self.read(key, true);
        }
        if signal.readable {
            self.read(key, signal.ended);
        }
    }

    fn finish(&mut self, timing: &mut Timing) {
        if self.mailbox.take().contains(&WorkerCommand::End) {
            self.end();
        }
        self.passed(timing, Metric::StageMail);
        let now = self.table.now();
        self.admission
            .acceptor
            .resume_if_due(&mut self.table.driver, now);
        self.deadlines.meet(&mut self.table);
        self.passed(timing, Metric::StageDeadlines);
        if self.table.remove_closed() {
            self.admission.acceptor.resume_soon(now);
        }
        self.passed(timing, Metric::StageClosing);
    }

    fn is_over(&self) -> bool {
        self.is_ending && self.table.is_empty()
    }
}
