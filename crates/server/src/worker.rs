//! Worker: the stages, and the control flow between them.
//!
//! Control flow is here: a stage acts on the connection table and returns what is to be done next;
//! no stage calls another that came before it.

/// Sessions that must end.
mod leaving;
mod refusing;

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
use crate::drain::Drain;
use crate::fanout::Fanout;
use crate::frames::TurnFrames;
use crate::heartbeat::Heartbeats;
use crate::ingress::Ingress;
use crate::inspect::{inspect, session_report};
use crate::lease::LeaseScan;
use crate::limits::ACCEPTS_PER_TURN;
use crate::listener::{ListenerContext, ListenerKind};
use crate::mail::{Mail, Reload};
use crate::page_request;
use crate::parcel::ParcelInFlight;
use crate::refusal::AwaitedRequests;
use crate::session::{LastWord, Requests, Sessions};
use crate::settings::LiveSettings;
use crate::shared::Shared;
use crate::slowest::SlowestSearch;
use crate::stats::{Metric, WorkerCounters, WorkerStats};
use crate::table::{CloseReason, ConnectionTable, Expired, Extras, Phase};
use leaving::Leaving;

/// Remedy for operators when descriptors run out.
const MORE_DESCRIPTORS: &str =
    "raise the limit on open files (ulimit -n, LimitNOFILE=) or use --workers N --private-fds";

/// Worker: one thread of the server. Owns its connections from accept to close.
pub(crate) struct Worker<D: Driver> {
    id: WorkerId,
    shared: Arc<Shared>,
    live: Arc<LiveSettings>,
    mailbox: Arc<Mailbox<Mail>>,
    pub(crate) table: ConnectionTable<D>,
    pub(crate) acceptor: Acceptor<D::Listener, ListenerContext>,
    admission: Admission,
    ingress: Ingress,
    sessions: Sessions,
    awaited_requests: AwaitedRequests,
    responder: Responder,
    pub(crate) fanout: Fanout,
    frames: TurnFrames,
    heartbeats: Heartbeats,
    pub(crate) slowest: SlowestSearch,
    drain: Option<Drain>,
    /// Sessions that must end and are not logged out yet.
    leaving: VecDeque<Leaving>,
    lease_scan: LeaseScan,
    /// Working memory: connections whose deadlines have passed.
    due: Vec<SlotKey>,
}

impl<D: Driver> Worker<D> {
    pub(crate) fn new(
        id: WorkerId,
        shared: Arc<Shared>,
        mailbox: Arc<Mailbox<Mail>>,
        stats: Arc<WorkerStats>,
        warnings: RateLimitedWarnings,
        driver: D,
    ) -> Self {
        let live = Arc::clone(&shared.settings.live);
        let tls_warnings = shared.tls_warnings.clone();
        Self {
            id,
            table: ConnectionTable::new(driver, stats, &live),
            acceptor: Acceptor::new(warnings, MORE_DESCRIPTORS),
            admission: Admission::new(Arc::clone(&shared)),
            ingress: Ingress::new(live.tls.clone(), tls_warnings),
            sessions: Sessions::new(id, Arc::clone(&shared), Arc::clone(&mailbox)),
            awaited_requests: AwaitedRequests::default(),
            responder: Responder::new(id, Arc::clone(&shared)),
            fanout: Fanout::default(),
            frames: TurnFrames::new(shared.router.epoch()),
            heartbeats: Heartbeats::new(live.heartbeat),
            slowest: SlowestSearch::default(),
            drain: None,
            leaving: VecDeque::new(),
            lease_scan: LeaseScan::default(),
            due: Vec::new(),
            shared,
            live,
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
        // Mail that is left, and later mail, is shed.
        for mail in self.mailbox.close() {
            if let Mail::Deliver(parcel) = mail {
                drop(ParcelInFlight::new(parcel));
            }
        }
        Ok(())
    }

    /// Borrows the stages from bytes to answers, and the table that they act on.
    const fn request_path(&mut self) -> (&mut Ingress, &mut ConnectionTable<D>, Requests<'_>) {
        let requests = Requests {
            sessions: &mut self.sessions,
            responder: &mut self.responder,
            admission: &mut self.admission,
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
            Some(Phase::AwaitingControl | Phase::AwaitingKeys | Phase::Open(_) | Phase::Closed)
            | None => {}
        }
    }

    /// Admits a new connection. It is read before it is watched: its request has usually arrived
    /// with it, which saves a poll.
    fn admit(&mut self, socket: D::Socket, peer: std::net::IpAddr, listener: ListenerContext) {
        let key = self.table.open(socket);
        let is_tls = listener.kind == ListenerKind::Tls;
        if is_tls && let Some(connection) = self.table.get_mut(key) {
            connection.extras.insert(Extras::TLS);
        }
        match self.admission.admit(key.index, peer) {
            Ok(()) => {
                if let Some(connection) = self.table.get_mut(key) {
                    connection.admitted = true;
                }
                self.read(key, false);
            }
            Err(limit) => {
                self.table.stats.add(limit, 1);
                // A handshake would cost more than the connection that there is no room for.
                match is_tls {
                    true => self.table.close(key, CloseReason::Rejected),
                    false => self.refuse(key),
                }
            }
        }
        if let Err(error) = self.table.watch(key) {
            // The kernel's memory for watches has run out: as good as no descriptor.
            let ConnectionTable {
                driver,
                stats,
                clock,
                ..
            } = &mut self.table;
            self.acceptor
                .pause(driver, &stats.counters, clock.now, &error);
        }
    }

    fn take_mail(&mut self) {
        for mail in self.mailbox.take() {
            match mail {
                Mail::Deliver(parcel) => self.fanout.add(parcel),
                Mail::Inspect { sessions, report } => inspect(
                    &mut self.table,
                    &self.sessions,
                    &self.shared.router,
                    &sessions,
                    report,
                ),
                Mail::Slowest { limit, report } => self.slowest.ask(limit, report),
                Mail::Close(sessions) => {
                    self.end_sessions(sessions, LastWord::Nothing, CloseReason::Kicked);
                }
                Mail::Revoke(revoked) => self.lease_scan.search(revoked),
                Mail::RevokeOlder(sessions, before) => self.revoke_older(sessions, before),
                Mail::Answer { key, response } => {
                    page_request::respond(&mut self.table, &mut self.responder, key, response);
                }
                Mail::KeysFetched => self.sessions.awaiting_keys.release(),
                Mail::Reload(Reload { live, pending }) => {
                    self.reload(live);
                    drop(pending);
                }
                Mail::Drain => self.begin_drain(),
            }
        }
    }

    /// Handles requests again that waited for key sets, a turn's worth of them.
    fn resume_awaiting_keys(&mut self) {
        for key in self.sessions.awaiting_keys.take() {
            let waits = |phase| phase == Phase::AwaitingKeys;
            if self
                .table
                .get(key)
                .is_some_and(|connection| waits(connection.phase))
            {
                self.table.enter(key, Phase::Head { partial: true });
                let (ingress, table, mut requests) = self.request_path();
                // No edge will announce what has come meanwhile.
                ingress.resume(table, key, true, &mut requests);
            }
        }
    }

    /// Replaces the settings in all stages.
    fn reload(&mut self, live: Arc<LiveSettings>) {
        self.table.set_limits(&live);
        self.heartbeats.set_period(live.heartbeat);
        self.ingress.set_tls(live.tls.clone());
        self.admission.live = Arc::clone(&live);
        self.sessions.live = Arc::clone(&live);
        self.responder.live = Arc::clone(&live);
        self.live = live;
    }

    /// Goes on with the search for the slowest readers, and reports when it is over.
    fn search_slowest(&mut self) {
        let Some(slowest) = self.slowest.advance(self.table.backlogs()) else {
            return;
        };
        let mut reports = Vec::new();
        for &index in &slowest.slots {
            // Some backlogs may have become empty since they were visited.
            if self.table.backlogs().get(index).is_some()
                && let Some((key, _)) = self.table.at(index)
            {
                let router = &self.shared.router;
                reports.extend(session_report(&mut self.table, &self.sessions, router, key));
            }
        }
        slowest.answer(&reports);
    }

    fn begin_drain(&mut self) {
        self.acceptor.close(&mut self.table.driver, |_| false);
        let (now, taken) = (self.table.clock.now, self.fanout.taken());
        self.drain = Some(Drain::new(self.id, &self.live, now, taken));
    }

    /// Sends the frames of deliveries, and settles the deliveries that are done.
    fn fan_out(&mut self) {
        if !self.fanout.has_work() {
            return;
        }
        self.fanout.deliver(&mut self.table, &mut self.frames);
        // The directory and the metrics must agree with a receipt before its publisher has it.
        self.log_out_ended();
        self.table.stats.delivered(self.frames.counts());
        self.mailbox.release(self.frames.settle());
    }

    fn meet_deadlines(&mut self) {
        self.acceptor
            .resume_if_due(&mut self.table.driver, self.table.clock.now);
        let mut due = mem::take(&mut self.due);
        self.table.take_due(&mut due);
        for key in due.drain(..) {
            match self.table.check_deadline(key) {
                Some(Expired::Close(key, reason)) => self.table.close(key, reason),
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
        self.heartbeats.send(&mut self.table);
    }

    fn log_out_ended(&mut self) {
        for ended in self.table.take_ended() {
            self.sessions.log_out(&self.table, &ended);
        }
    }

    /// Removes the connections that were closed in this turn.
    fn remove_closed(&mut self) {
        for closed in self.table.take_closed() {
            let index = closed.key.index;
            self.ingress.forget(index);
            self.sessions.awaiting_keys.forget(closed.key);
            if self.table.remove(&closed) {
                self.admission.leave(index);
            }
            // The limit is lowered before the gauge, so a reader of the gauge finds room.
            self.table.stats.take(Metric::Connections, 1);
            self.acceptor.resume_soon(self.table.clock.now);
        }
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
        self.mailbox.may_sleep()
    }

    fn wake_up(&self) {
        self.mailbox.wake_up();
    }

    fn has_work(&self) -> bool {
        self.fanout.has_work()
            || self.ingress.has_unread()
            || self.drain.as_ref().is_some_and(Drain::has_farewells)
            || self.slowest.has_work()
            || !self.leaving.is_empty()
            || self.lease_scan.has_work()
            || self.sessions.awaiting_keys.has_work()
    }

    fn next_deadline(&self, now: Tick) -> Option<Duration> {
        [
            self.table.next_deadline(now),
            self.heartbeats.next_in(&self.table, now),
            self.acceptor.resume_in(now),
            self.lease_scan.next_in(&self.sessions.leases, now),
            self.drain.as_ref().map(|drain| drain.ends_in(now)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn before_sleep(&mut self) {
        self.fanout.trim();
        self.frames.trim();
        self.table.trim();
        self.ingress.trim();
    }

    fn begin(&mut self, clock: Clock) {
        self.table.clock = clock;
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
        self.pass(timing, Metric::StageFanOut);
        self.meet_deadlines();
        self.pass(timing, Metric::StageDeadlines);
        if let Some(drain) = &mut self.drain {
            drain.send_farewells(&mut self.table, self.fanout.oldest());
        }
        self.log_out_ended();
        self.remove_closed();
        self.pass(timing, Metric::StageClosing);
        if self.fanout.is_sweeping() {
            // Where there are more threads than cores, a thread that reads what was sent, or has an
            // event for another worker, gets a core now and not when this thread's time slice ends.
            std::thread::yield_now();
        }
    }

    fn is_over(&self) -> bool {
        let is_delivering = self.fanout.has_work();
        self.drain
            .as_ref()
            .is_some_and(|drain| drain.is_over(&self.table, is_delivering))
    }
}
