//! The worker: its parts, one for each stage, and its turn.
//!
//! A turn collects what happened, acts on it, and closes last.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Mailbox, Relay, Signal, Slab, SlotKey, Tick, Timing};

use crate::complaints::{Complaint, Complaints};
use crate::tcp::accept::Accepting;
use crate::tcp::access::Access;
use crate::tcp::closing::Closing;
use crate::tcp::deadlines::Deadlines;
use crate::tcp::front::Plan;
use crate::tcp::health::Health;
use crate::tcp::latency::Latency;
use crate::tcp::limits::BLOCK_BYTES;
use crate::tcp::names::Watched;
use crate::tcp::pair::{Direction, Pair};
use crate::tcp::reload::Drain;
use crate::tcp::splice::Pipes;
use crate::tcp::stats::{Metric, WorkerStats};

/// What other threads tell a worker.
#[derive(Debug)]
pub(crate) enum Mail {
    /// To listen where the plan says, and nowhere else.
    Plan(Plan),
    /// To accept nobody, and to end when the last connection has, or within this time.
    Drain(Duration),
}

/// One thread's share of the proxy. Owns its pairs from accept to close.
pub(crate) struct Worker<D: Relay> {
    pub(crate) number: u16,
    pub(crate) mailbox: Arc<Mailbox<Mail>>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) driver: D,
    pub(crate) now: Tick,
    timing: Timing,
    pub(crate) pairs: Slab<Pair<D::Socket, D::Pipe>>,
    pub(crate) accepting: Accepting<D::Listener>,
    pub(crate) block: Box<[u8]>,
    pub(crate) pipes: Pipes<D::Pipe>,
    /// Directions with more to move than one turn allows.
    pub(crate) unread: Vec<(SlotKey, Direction)>,
    pub(crate) deadlines: Deadlines,
    pub(crate) health: Health<D::Socket>,
    pub(crate) latency: Latency,
    pub(crate) access: Access,
    pub(crate) complaints: Complaints,
    pub(crate) drain: Drain,
    pub(crate) closing: Vec<Closing>,
    signals: Vec<Signal>,
}

impl<D: Relay> Worker<D> {
    pub(crate) fn new(
        number: u16,
        mailbox: Arc<Mailbox<Mail>>,
        stats: Arc<WorkerStats>,
        access: Access,
        latency: Latency,
        complaints: Complaints,
        driver: D,
    ) -> Self {
        Self {
            number,
            mailbox,
            stats,
            now: driver.now(),
            driver,
            timing: Timing::default(),
            pairs: Slab::default(),
            accepting: Accepting::default(),
            block: vec![0; BLOCK_BYTES].into_boxed_slice(),
            pipes: Pipes::default(),
            unread: Vec::new(),
            deadlines: Deadlines::default(),
            health: Health::default(),
            latency,
            access,
            complaints,
            drain: Drain::default(),
            closing: Vec::new(),
            signals: Vec::new(),
        }
    }

    /// Takes turns until the proxy has ended.
    ///
    /// # Errors
    ///
    /// When the poller fails, which a correct program does not see.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.is_over() {
            self.turn()?;
        }
        self.latency.flush();
        self.access.flush(&self.stats);
        Ok(())
    }

    /// One turn: wait, act on what happened stage by stage, close.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        let mut signals = mem::take(&mut self.signals);
        self.driver.wait(timeout, &mut signals)?;
        self.mailbox.wake_up();
        let elapsed = self.driver.elapsed();
        self.now = Tick::default().after(elapsed);
        self.timing.begin(elapsed, signals.len(), &self.stats);

        for (key, direction) in mem::take(&mut self.unread) {
            self.pump(key, direction);
        }
        for signal in &signals {
            match Watched::of(signal.token) {
                Watched::Pair(key, side) => self.on_signal(key, side, *signal),
                Watched::Listener(id) => {
                    self.passed(Metric::StageSignals);
                    self.accept(id);
                    self.passed(Metric::StageAccept);
                }
                Watched::Check(index, attempt) => self.on_check(index, attempt),
                Watched::Mailbox => {}
            }
        }
        self.signals = signals;
        self.passed(Metric::StageSignals);
        for mail in self.mailbox.take() {
            self.on_mail(mail);
        }
        self.passed(Metric::StageMail);
        self.meet_deadlines();
        self.passed(Metric::StageDeadlines);
        self.look_after_backends();
        self.passed(Metric::StageChecks);
        self.close_all();
        self.pipes.trim(self.now, &self.stats);
        let lost = self.latency.turn(|| self.driver.unix_seconds());
        if lost > 0 {
            self.complaints.note(self.now, Complaint::Latency, "", || {
                "lines of the latency report are lost: nobody reads them as fast as they come"
                    .to_owned()
            });
        }
        self.access.flush(&self.stats);
        self.passed(Metric::StageClosing);
        Ok(())
    }

    /// A stage of the turn is through.
    fn passed(&mut self, stage: Metric) {
        let clock = || self.driver.elapsed();
        self.timing.passed(stage, clock, &self.stats);
    }

    /// How long the turn may wait for something to happen.
    fn timeout(&mut self) -> Option<Duration> {
        if !self.unread.is_empty() || !self.mailbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        let elapsed = self.driver.elapsed();
        self.timing.rest(elapsed, &self.stats);
        let now = Tick::default().after(elapsed);
        [
            self.next_deadline(now),
            self.accepting.resume_in(now),
            self.pipes.trim_in(now),
            self.health.next_in(now),
            self.latency.next_in(),
            self.drain.ends_in(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The pair named, unless it is gone or about to go.
    pub(crate) fn pair(&mut self, key: SlotKey) -> Option<&mut Pair<D::Socket, D::Pipe>> {
        self.pairs
            .get_mut(key)
            .filter(|pair| pair.phase != crate::tcp::pair::Phase::Closed)
    }
}
