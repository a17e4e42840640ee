//! Worker: the stages, and the control flow between them.
//!
//! Control flow is here: a stage acts on the connection table and returns what is to be done next;
//! no stage calls another that came before it.

/// New connections.
mod admitting;
/// Sessions that must end.
mod leaving;
/// Requests that waited for key sets.
mod awaiting_keys;
/// Heartbeats, replays, presence and batches of polls.
mod feeding;
/// Events that the mailbox refused.
mod losing;
/// Memory of buffers.
mod buffers;
/// Messages from other threads.
mod mail;
/// Reports on the slowest readers.
mod reporting;
/// What simulations see of a worker.
#[cfg(any(test, feature = "sim"))]
mod sim;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{
    Accepted, Acceptor, Clock, Driver, EventLoop, Handler, Mailbox, RateLimitedWarnings, Signal,
    SlotKey, Tick, Timing,
};
use router::WorkerId;

use crate::admission::Admission;
use crate::answer::Responder;
use crate::budget::{Bound, input_bound};
use crate::drain::Drain;
use crate::fanout::Fanout;
use crate::frames::TurnFrames;
use crate::give_way::{LargestBuffers, Scope};
use crate::heartbeat::Heartbeats;
use crate::ingress::Ingress;
use crate::latency::DeliveryLatencies;
use crate::limits::ACCEPTS_PER_TURN;
use crate::listener::ListenerKind;
use crate::mail::Mail;
use crate::parcel::{ParcelInFlight, parcel_weight};
use crate::presence::PresenceStage;
use crate::refusal::AwaitedRequests;
use crate::replay::{Feeder, defer_behind};
use crate::session::{Leaving, Requests, Sessions};
use crate::shared::Shared;
use crate::slowest::SlowestSearch;
use crate::stage::Stage;
use crate::stats::{Metric, WorkerCounters};
use crate::table::{ConnectionTable, Expired, Phase};

/// Remedy for operators when descriptors run out.
const MORE_DESCRIPTORS: &str =
    "raise the limit on open files (ulimit -n, LimitNOFILE=) or use --workers N --private-fds";

/// Number of stages.
const STAGES: usize = 20;

/// Borrows the stages of a worker, each of them once: `stages!(self)`, or `stages!(self, mut)`. In
/// which order they act is told by `finish`.
macro_rules! stages {
    ($worker:ident $(, $mutable:ident)?) => {
        [
            &$($mutable)? $worker.table,
            &$($mutable)? $worker.acceptor,
            &$($mutable)? $worker.ingress,
            &$($mutable)? $worker.sessions.awaiting_keys,
            &$($mutable)? $worker.sessions.login_checks,
            &$($mutable)? $worker.sessions.leases,
            &$($mutable)? $worker.sessions.websockets,
            &$($mutable)? $worker.sessions.replays,
            &$($mutable)? $worker.sessions.polls,
            &$($mutable)? $worker.fanout,
            &$($mutable)? $worker.frames,
            &$($mutable)? $worker.feeder,
            &$($mutable)? $worker.presence,
            &$($mutable)? $worker.heartbeats,
            &$($mutable)? $worker.slowest,
            &$($mutable)? $worker.largest,
            &$($mutable)? $worker.largest_input,
            &$($mutable)? $worker.leaving,
            &$($mutable)? $worker.drain,
            &$($mutable)? $worker.latencies,
        ]
    };
}

/// Worker: one thread of the server. Owns its connections from accept to close.
pub(crate) struct Worker<D: Driver> {
    id: WorkerId,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox<Mail>>,
    pub(crate) table: ConnectionTable<D>,
    pub(crate) acceptor: Acceptor<D::Listener, ListenerKind>,
    admission: Admission,
    ingress: Ingress,
    pub(crate) sessions: Sessions,
    awaited_requests: AwaitedRequests,
    responder: Responder,
    pub(crate) fanout: Fanout,
    frames: TurnFrames,
    feeder: Feeder,
    /// Head of the history before this turn's mail was taken: all up to there is in the fan-out.
    head: Option<u64>,
    heartbeats: Heartbeats,
    pub(crate) slowest: SlowestSearch,
    pub(crate) largest: LargestBuffers,
    pub(crate) largest_input: LargestBuffers,
    /// Input that has not arrived whole which this worker may keep.
    pub(crate) input_bound: Bound,
    pub(crate) presence: PresenceStage,
    drain: Option<Drain>,
    /// Sessions that must end and are not logged out yet.
    leaving: VecDeque<Leaving>,
    /// Working memory: connections whose deadlines have passed.
    due: Vec<SlotKey>,
    latencies: DeliveryLatencies,
}

impl<D: Driver> Worker<D> {
    pub(crate) fn new(
        id: WorkerId,
        shared: Arc<Shared>,
        warnings: RateLimitedWarnings,
        driver: D,
    ) -> Self {
        let (mailbox, stats) = (Arc::clone(shared.mailbox(id)), Arc::clone(shared.stats(id)));
        let (live, limits) = (&shared.settings.live, shared.limits);
        let has_history = shared.router.recorder().is_some();
        let clock = driver.elapsed();
        Self {
            id,
            table: ConnectionTable::new(driver, stats, Arc::clone(live), limits, has_history),
            acceptor: Acceptor::new(warnings, MORE_DESCRIPTORS),
            admission: Admission::new(Arc::clone(&shared)),
            ingress: Ingress::new(live.tls.clone(), shared.connection_warnings.clone()),
            sessions: Sessions::new(id, Arc::clone(&shared)),
            awaited_requests: AwaitedRequests::default(),
            responder: Responder::new(id, Arc::clone(&shared)),
            fanout: Fanout::default(),
            frames: TurnFrames::new(shared.router.epoch(), shared.router.recorder().is_some()),
            feeder: Feeder::new(limits),
            head: None,
            heartbeats: Heartbeats::new(live.heartbeat),
            slowest: SlowestSearch::default(),
            largest: LargestBuffers::new(Scope::All),
            largest_input: LargestBuffers::new(Scope::Input),
            input_bound: input_bound(shared.settings.workers),
            presence: PresenceStage::default(),
            drain: None,
            leaving: VecDeque::new(),
            due: Vec::new(),
            latencies: DeliveryLatencies::new(&shared.router.mailboxes().clock, clock),
            shared,
            mailbox,
        }
    }

    /// Takes turns until the server has ended.
    ///
    /// # Errors
    ///
    /// When the poller fails, which means a bug in the program.
    pub(crate) fn run(mut self) -> io::Result<()> {
        EventLoop::new(&self.table.driver).run(&mut self)?;
        self.conclude();
        Ok(())
    }

    /// Takes leave of the rest of the server, as the worker has ended. Mail that is left, and later
    /// mail, is shed.
    pub(crate) fn conclude(&self) {
        self.release_buffers();
        for mail in self.mailbox.close() {
            if let Mail::Deliver(parcel) = mail {
                self.mailbox.release(parcel_weight(&parcel));
                drop(ParcelInFlight::new(parcel));
            }
        }
    }

    fn stages(&self) -> [&dyn Stage; STAGES] {
        stages!(self)
    }

    fn stages_mut(&mut self) -> [&mut dyn Stage; STAGES] {
        stages!(self, mut)
    }

    /// Borrows the stages from bytes to answers, and the table that they act on.
    const fn request_path(&mut self) -> (&mut Ingress, &mut ConnectionTable<D>, Requests<'_>) {
        let requests = Requests {
            sessions: &mut self.sessions,
            responder: &mut self.responder,
            admission: &mut self.admission,
            awaited_requests: &mut self.awaited_requests,
        };
        (&mut self.ingress, &mut self.table, requests)
    }

    /// Reads the input of a connection and acts on it.
    fn read(&mut self, key: SlotKey, ended: bool) {
        let (ingress, table, mut requests) = self.request_path();
        ingress.read(table, key, ended, &mut requests);
    }

    /// Sends the backlog of a connection, and continues it where its full socket had stopped it.
    fn flush(&mut self, key: SlotKey) {
        match self.table.flush(key) {
            Some(Phase::Ending { .. }) => self.table.shutdown_write(key),
            // Requests may have waited for their answers to be taken.
            Some(Phase::Head { .. }) => {
                let (ingress, table, mut requests) = self.request_path();
                ingress.resume(table, key, true, &mut requests);
            }
            Some(Phase::Open(_)) => {
                self.sessions.replays.room(&self.table, key);
                self.presence.resume(key);
            }
            Some(Phase::AwaitingKeys | Phase::Pending | Phase::Closed) | None => {}
        }
    }

    /// Sends the frames of deliveries, and settles the deliveries that are done.
    fn fan_out(&mut self) {
        if !self.fanout.has_work() {
            return;
        }
        self.fanout
            .deliver(&mut self.table, &mut self.sessions, &mut self.frames);
        self.catch_up_behind();
        defer_behind(&self.table, &mut self.sessions, &self.shared.router);
        // The directory and the metrics must agree with a receipt before its publisher has it.
        self.log_out_ended();
        self.table.stats.delivered(self.frames.counts());
        self.mailbox
            .release(self.frames.settle(self.latencies.done()));
    }

    fn meet_deadlines(&mut self) {
        self.acceptor
            .resume_if_due(&mut self.table.driver, self.table.clock.now);
        let mut due = mem::take(&mut self.due);
        self.table.take_due(&mut due);
        for key in due.drain(..) {
            match self.table.check_deadline(key) {
                Some(Expired::Close(key, reason)) => self.table.close(key, reason),
                Some(Expired::CloseSlow(key)) => self.table.close_slow(key),
                Some(Expired::Refuse(key)) => self.responder.refuse(&mut self.table, key),
                Some(Expired::RejectLate(key)) => self.responder.reject_late(&mut self.table, key),
                Some(Expired::RejectKey(key)) => {
                    self.sessions
                        .reject_key(&mut self.table, &mut self.responder, key);
                }
                None => {}
            }
        }
        self.due = due;
        self.sessions
            .websockets
            .end_late(&mut self.table, &self.sessions.replays);
        self.send_heartbeats();
    }

    /// Removes the connections that were closed in this turn.
    fn remove_closed(&mut self) {
        for closed in self.table.take_closed() {
            for stage in self.stages_mut() {
                stage.forget(closed.key);
            }
            if self.table.remove(&closed) {
                self.admission.leave(closed.key.index);
            }
            // The limit is lowered before the gauge, so a reader of the gauge finds room.
            self.table.stats.take(Metric::Connections, 1);
            self.acceptor.resume_soon(self.table.clock.now);
        }
    }

    /// Counts the latencies of the turn that ended when the clock of the worker showed `elapsed`.
    fn count_latencies(&mut self, elapsed: Duration) {
        // The clock of publishers runs on while the worker is stopped.
        let passed = elapsed + self.table.driver.left_out();
        self.latencies.turn_ended(passed, &self.table.stats);
    }

    /// Marks the end of a stage of the turn.
    fn pass(&self, timing: &mut Timing, stage: Metric) {
        let clock = || self.table.driver.elapsed();
        timing.passed(stage, clock, &self.table.stats.counters);
    }
}

impl<D: Driver> Handler for Worker<D> {
    type Driver = D;
    type Counters = WorkerCounters;

    fn driver(&mut self) -> &mut D {
        &mut self.table.driver
    }

    fn counters(&self) -> &WorkerCounters {
        &self.table.stats.counters
    }

    fn may_sleep(&self) -> bool {
        // In this order: what another worker reports after the announcement wakes this one.
        self.mailbox.may_sleep()
            && self.shared.losses(self.id).is_empty()
            && !self.must_free_buffers()
    }

    fn wake_up(&self) {
        self.mailbox.wake_up();
    }

    fn has_work(&self) -> bool {
        self.stages().iter().any(|stage| stage.has_work())
    }

    fn next_deadline(&self, now: Tick) -> Option<Duration> {
        let connections = self.table.len();
        let stages = self.stages();
        let times = stages.iter().filter_map(|it| it.next_in(now, connections));
        times.min()
    }

    fn before_sleep(&mut self) {
        self.stages_mut().into_iter().for_each(Stage::trim);
        self.report_buffers();
    }

    fn rest(&mut self, elapsed: Duration) {
        self.count_latencies(elapsed);
    }

    fn begin(&mut self, clock: Clock) {
        self.count_latencies(clock.elapsed);
        self.table.clock = clock;
        self.check_room_for_input();
        let (ingress, table, mut requests) = self.request_path();
        ingress.read_on(table, &mut requests);
    }

    fn on_listener(&mut self, id: u32) {
        let Some(listener) = self.acceptor.get(id).map(|open| open.context) else {
            return;
        };
        for _ in 0..ACCEPTS_PER_TURN {
            let ConnectionTable {
                driver,
                stats,
                clock,
                ..
            } = &mut self.table;
            match self.acceptor.accept(driver, &stats.counters, clock.now, id) {
                Accepted::Connection(socket, peer) => self.admit(socket, peer.ip(), listener),
                Accepted::Gone => {}
                Accepted::Nobody | Accepted::Exhausted(_) => return,
            }
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        let key = signal.token.key();
        if signal.writable {
            self.flush(key);
        }
        if signal.readable {
            self.read(key, signal.ended);
        }
    }

    fn finish(&mut self, timing: &mut Timing) {
        self.take_mail();
        self.resume_awaiting_keys();
        self.search_slowest();
        self.check_leases();
        self.end_leaving();
        self.pass(timing, Metric::StageMail);
        self.fan_out();
        self.feed_replays();
        self.serve_presence();
        self.pass(timing, Metric::StageFanOut);
        self.meet_deadlines();
        self.pass(timing, Metric::StageDeadlines);
        if let Some(drain) = &mut self.drain {
            let polls = &mut self.sessions.polls;
            drain.send_farewells(&mut self.table, polls, self.fanout.oldest());
        }
        self.answer_polls();
        self.table.close_unwatched();
        self.log_out_ended();
        self.remove_closed();
        self.bound_input();
        self.bound_buffers();
        self.pass(timing, Metric::StageClosing);
        if self.fanout.is_sweeping() {
            // Where there are more threads than cores, a thread that reads what was sent, or has an
            // event for another worker, gets a core now and not when this thread's time slice ends.
            std::thread::yield_now();
        }
    }

    fn is_over(&self) -> bool {
        let drain = self.drain.as_ref();
        drain.is_some_and(|it| it.is_over(&self.table, self.fanout.has_work()))
    }
}
