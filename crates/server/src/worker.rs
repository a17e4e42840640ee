//! The worker: its parts, one for each stage, and its turn.
//!
//! Each stage keeps its state in a struct of its own file and acts as an `impl` of the worker there.
//! A turn collects what happened, acts on it in the order of the stages, and closes last.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reactor::SlotKey;
use reactor::{Driver, Mailbox, Signal, Slab, Tick, Timing, Token};
use router::{Router, SessionRef, WorkerId};

use crate::accept::{Accepting, Addresses};
use crate::backlog::Backlogs;
use crate::clock::Clock;
use crate::closing::Closing;
use crate::connection::{Connection, Phase};
use crate::deadlines::Deadlines;
use crate::demo::DemoPage;
use crate::drain::Drain;
use crate::egress::Egress;
use crate::fanout::Fanout;
use crate::ingress::Ingress;
use crate::load::Load;
use crate::mail::{Mail, Post};
use crate::palette::Palette;
use crate::session::Sessions;
use crate::settings::Settings;
use crate::slowest::Slowest;
use crate::stats::{Metric, WorkerStats};

/// What all workers of a server share. Nothing in it is written on the path of an event.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) router: Arc<Router<Post>>,
    pub(crate) demo: Arc<OnceLock<DemoPage>>,
    pub(crate) connections: AtomicUsize,
    pub(crate) addresses: Addresses,
    pub(crate) draining: Arc<AtomicBool>,
}

/// One thread's share of the server. Owns its connections from accept to close.
pub(crate) struct Worker<D: Driver> {
    pub(crate) id: WorkerId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) mailbox: Arc<Mailbox<Mail>>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) driver: D,
    pub(crate) clock: Clock,
    timing: Timing,
    pub(crate) connections: Slab<Connection<D::Socket>>,
    pub(crate) accepting: Accepting,
    pub(crate) ingress: Ingress,
    pub(crate) sessions: Sessions,
    pub(crate) fanout: Fanout,
    pub(crate) palette: Palette,
    pub(crate) backlogs: Backlogs,
    pub(crate) egress: Egress,
    pub(crate) deadlines: Deadlines,
    pub(crate) drain: Drain,
    pub(crate) slowest: Slowest,
    /// Sessions that the operator has closed and whose turn has not come.
    pub(crate) kicked: VecDeque<SlotKey>,
    pub(crate) closing: Vec<Closing>,
    signals: Vec<Signal>,
}

impl<D: Driver> Worker<D> {
    pub(crate) fn new(
        id: WorkerId,
        shared: Arc<Shared>,
        mailbox: Arc<Mailbox<Mail>>,
        stats: Arc<WorkerStats>,
        driver: D,
    ) -> Self {
        Self {
            id,
            clock: Clock::new(&driver),
            timing: Timing::default(),
            connections: Slab::default(),
            accepting: Accepting::default(),
            ingress: Ingress::default(),
            sessions: Sessions::default(),
            fanout: Fanout::default(),
            palette: Palette::default(),
            backlogs: Backlogs::default(),
            egress: Egress::default(),
            deadlines: Deadlines::default(),
            drain: Drain::default(),
            slowest: Slowest::default(),
            kicked: VecDeque::new(),
            closing: Vec::new(),
            signals: Vec::new(),
            shared,
            mailbox,
            stats,
            driver,
        }
    }

    /// Takes turns until the server has ended.
    ///
    /// # Errors
    ///
    /// When the poller fails, which a correct program does not see.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.is_over() {
            self.turn()?;
        }
        // Nobody will have a turn at what is left or comes from now on: it is shed, and said.
        for mail in self.mailbox.close() {
            if let Mail::Deliver(parcel) = mail {
                drop(Load::new(parcel));
            }
        }
        Ok(())
    }

    /// One turn: wait, act on what happened stage by stage, close.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        if self.fanout.is_sweeping() {
            // Where there are more threads than cores, whoever reads what was sent, or has an event for
            // another worker, gets a core now and not when this thread's time slice ends.
            std::thread::yield_now();
        }
        let timeout = self.timeout();
        self.driver.wait(timeout, &mut self.signals)?;
        self.mailbox.wake_up();
        self.clock.read(&self.driver);
        let events = self.signals.len();
        self.timing
            .begin(self.clock.elapsed, events, &self.stats.counters);

        // Before the signals: what was kept of a connection must be read before what has come since.
        let unread = self.ingress.take_unread();
        self.read_on(unread);
        let signals = std::mem::take(&mut self.signals);
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
        self.take_mail();
        self.seek_slowest();
        self.kick();
        self.passed(Metric::StageMail);
        self.fan_out();
        self.passed(Metric::StageFanOut);
        self.meet_deadlines();
        self.passed(Metric::StageDeadlines);
        self.drain_on();
        self.close_all();
        self.passed(Metric::StageClosing);
        Ok(())
    }

    /// A stage of the turn is through.
    fn passed(&mut self, stage: Metric) {
        let clock = || self.driver.elapsed();
        self.timing.passed(stage, clock, &self.stats.counters);
    }

    /// How long the turn may wait for something to happen.
    fn timeout(&mut self) -> Option<Duration> {
        let busy = self.fanout.is_owing()
            || self.ingress.is_unread()
            || self.drain.is_under_way()
            || self.slowest.is_sought()
            || !self.kicked.is_empty();
        if busy || !self.mailbox.may_sleep() {
            return Some(Duration::ZERO);
        }
        self.fanout.trim();
        self.palette.trim();
        let elapsed = self.driver.elapsed();
        self.timing.rest(elapsed, &self.stats.counters);
        let now = Tick::default().after(elapsed);
        [
            self.next_deadline(now),
            self.accepting.resume_in(now),
            self.drain.ends_in(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn on_signal(&mut self, key: SlotKey, signal: Signal) {
        if signal.writable {
            self.on_writable(key);
        }
        if signal.readable {
            self.on_readable(key, signal.ended);
        }
    }

    fn take_mail(&mut self) {
        for mail in self.mailbox.take() {
            match mail {
                Mail::Deliver(parcel) => self.fanout.add(parcel),
                Mail::Inspect { recipients, report } => self.inspect(&recipients, report),
                Mail::Slowest { limit, report } => self.slowest.ask(limit, report),
                Mail::Close(recipients) => self.kicked.extend(recipients),
                Mail::Answer { key, response } => self.answer_relayed(key, response),
                Mail::Drain => self.begin_drain(),
            }
        }
    }

    /// The connection named, unless it is gone or about to go.
    pub(crate) fn connection(&mut self, key: SlotKey) -> Option<&mut Connection<D::Socket>> {
        self.connections
            .get_mut(key)
            .filter(|connection| connection.phase != Phase::Closed)
    }

    pub(crate) const fn name(&self, key: SlotKey) -> SessionRef {
        SessionRef::new(self.id, key)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Relaxed)
    }
}
