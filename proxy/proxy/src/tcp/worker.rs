//! The worker. No other module knows all stages and the order in which a pair passes through them.
//!
//! A stage works on the pair table and returns an [`Effect`](crate::tcp::effect::Effect), which the
//! worker applies.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{
    Accepted, Acceptor, Clock, EventLoop, Handler, Mailbox, RateLimitedWarnings, RelayDriver,
    Signal, SlotKey, Tick, Timing,
};

use crate::tcp::access_log::AccessLogLines;
use crate::tcp::close_reason::CloseReason;
use crate::tcp::deadlines::{self, IdleScan};
use crate::tcp::effect::Effect;
use crate::tcp::frontend::{Frontend, Frontends};
use crate::tcp::health::HealthChecker;
use crate::tcp::latency::LatencyRecorder;
use crate::tcp::limits::{ACCEPTS_PER_TURN, LAST_ACCEPTS_MAX};
use crate::tcp::metrics::{Metric, WorkerCounters};
use crate::tcp::pair::{Direction, FlowState, Phase, Side};
use crate::tcp::pair_table::PairTable;
use crate::tcp::relay::TransferBuffers;
use crate::tcp::reload::{self, Drain};
use crate::tcp::socket_id::SocketId;
use crate::tcp::{accept, backend_header, client_header, close, connect, teardown};

/// Advice for operators when a worker has no descriptor left.
const DESCRIPTORS_REMEDY: &str = "each connection takes two descriptors: raise the limit on open \
    files (ulimit -n, LimitNOFILE=) or use --workers N --private-fds";

/// Command from another thread.
#[derive(Debug)]
pub(crate) enum WorkerCommand {
    /// Serve these frontends and no others.
    Reload(Frontends),
    /// Stop accepting connections, and end with the last one, at the latest after this time.
    Drain(Duration),
}

/// State that a worker shares with other threads.
pub(crate) struct Shared {
    pub(crate) mailbox: Arc<Mailbox<WorkerCommand>>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) access_log: AccessLogLines,
    pub(crate) latency: LatencyRecorder,
    pub(crate) warnings: RateLimitedWarnings,
    /// Bytes received at a time.
    pub(crate) block_bytes: usize,
}

/// Worker thread of the proxy. Owns its pairs from accept to close.
pub(crate) struct Worker<D: RelayDriver> {
    number: u16,
    mailbox: Arc<Mailbox<WorkerCommand>>,
    pub(crate) table: PairTable<D>,
    pub(crate) acceptor: Acceptor<D::Listener, Arc<Frontend>>,
    buffers: TransferBuffers<D::Pipe>,
    /// Directions with more bytes than the budget of one turn.
    unread: Vec<(SlotKey, Direction)>,
    /// Pairs with an expired deadline. Scratch space of a turn.
    due: Vec<SlotKey>,
    idle_scan: IdleScan,
    health: HealthChecker<D::Socket>,
    latency: LatencyRecorder,
    access_log: AccessLogLines,
    warnings: RateLimitedWarnings,
    drain: Drain,
}

impl<D: RelayDriver> Worker<D> {
    /// Makes a worker without listeners.
    pub(crate) fn new(number: u16, shared: Shared, driver: D) -> Self {
        Self {
            number,
            mailbox: shared.mailbox,
            table: PairTable::new(driver, shared.counters),
            acceptor: Acceptor::new(shared.warnings.clone(), DESCRIPTORS_REMEDY),
            buffers: TransferBuffers::new(shared.block_bytes),
            unread: Vec::new(),
            due: Vec::new(),
            idle_scan: IdleScan::default(),
            health: HealthChecker::default(),
            latency: shared.latency,
            access_log: shared.access_log,
            warnings: shared.warnings,
            drain: Drain::default(),
        }
    }

    /// Runs the event loop until the proxy has ended.
    ///
    /// # Errors
    ///
    /// When the poller fails, which means a bug in the program.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut event_loop = EventLoop::new(&self.table.driver);
        event_loop.run(&mut self)?;
        self.latency.flush();
        self.access_log.flush(&self.table.counters);
        Ok(())
    }

    /// Opens the first listeners of a worker.
    ///
    /// # Errors
    ///
    /// Those of [`reactor::Driver::listen`].
    pub(crate) fn listen(&mut self, frontends: &Frontends) -> io::Result<()> {
        let (acceptor, driver) = (&mut self.acceptor, &mut self.table.driver);
        frontends
            .iter()
            .try_for_each(|frontend| frontend.listen(acceptor, driver))
    }

    /// Serves `frontends` and no others. A listener that stays is never closed in between.
    pub(crate) fn follow(&mut self, frontends: &Frontends) {
        if self.drain.has_begun() {
            return;
        }
        // Removed listeners are closed last: a new one may take over their port.
        let driver = &mut self.table.driver;
        reload::open_listeners(&mut self.acceptor, driver, frontends, self.number);
        self.close_removed_listeners(frontends);
        // One worker checks backends for all.
        if self.number == 0 {
            self.health.follow(frontends, self.table.now());
        }
    }

    /// Closes the listeners that are not among `frontends`, after accepting all clients that wait
    /// there: the kernel would reset them.
    fn close_removed_listeners(&mut self, frontends: &[Arc<Frontend>]) {
        for id in reload::removed_listeners(&self.acceptor, frontends) {
            self.accept(id, LAST_ACCEPTS_MAX);
            self.acceptor
                .close(&mut self.table.driver, |open| open.id != id);
        }
    }

    fn accept(&mut self, id: u32, accepts_max: usize) {
        let Some(open) = self.acceptor.get(id) else {
            return;
        };
        let frontend = Arc::clone(&open.context);
        for _ in 0..accepts_max {
            let PairTable {
                driver,
                counters,
                clock,
                ..
            } = &mut self.table;
            match self.acceptor.accept(driver, &**counters, clock.now, id) {
                Accepted::Connection(client, peer) => {
                    let admitted = accept::admit(&mut self.table, &frontend, client, peer);
                    if let Some((key, effect)) = admitted {
                        self.apply(key, effect);
                    }
                }
                Accepted::Gone => {}
                Accepted::Nobody | Accepted::Exhausted(_) => return,
            }
        }
    }

    fn on_pair(&mut self, key: SlotKey, side: Side, signal: Signal) {
        let Some(pair) = self.table.get(key) else {
            return;
        };
        let (from, to) = (Direction::from_side(side), Direction::to_side(side));
        let source = pair.flow(from);
        source.end_announced |= signal.ended;
        let is_over = matches!(source.state, FlowState::Done | FlowState::Broken);
        match (pair.phase, side) {
            (Phase::Closed, _) => {}
            (Phase::AwaitingHeader, _) => {
                let block = &mut self.buffers.block;
                let effect = client_header::receive(&mut self.table, key, block, &self.warnings);
                self.apply(key, effect);
            }
            (Phase::Connecting, Side::Client) => pair.up.unread |= signal.readable,
            (Phase::Connecting, Side::Backend) => self.on_connect_result(key, signal),
            (Phase::Open, _) => {
                if signal.writable && mem::take(&mut pair.flow(to).sink_full) {
                    self.transfer(key, to);
                }
                if is_over && signal.ended {
                    let effect = teardown::check_reset(&mut self.table, key, side);
                    self.apply(key, effect);
                } else if signal.readable {
                    self.on_readable(key, from);
                }
            }
        }
    }

    /// Handles input of a direction's source. While the sink is full, it cannot be passed on, and
    /// more of it must not wake the worker.
    fn on_readable(&mut self, key: SlotKey, direction: Direction) {
        let Some(mut entry) = self.table.entry(key) else {
            return;
        };
        if entry.pair.flow(direction).sink_full {
            // If this fails, the worker only wakes more often than it must.
            let _ = entry.pause_input(key, direction, true);
        } else {
            self.transfer(key, direction);
        }
    }

    /// Handles the result of an attempt to connect.
    fn on_connect_result(&mut self, key: SlotKey, signal: Signal) {
        if let Err(error) = connect::complete(&mut self.table, key) {
            return self.apply(key, Effect::ConnectFailed(error));
        }
        let header = backend_header::prepend(&mut self.table, key);
        let Some(pair) = self.table.get(key) else {
            return;
        };
        if mem::take(&mut pair.up.unread) || pair.up.pending.is_some() {
            self.transfer(key, Direction::Up);
        }
        backend_header::discount(&mut self.table, key, header);
        if signal.readable {
            self.transfer(key, Direction::Down);
        }
    }

    fn transfer(&mut self, key: SlotKey, direction: Direction) {
        if let Some(entry) = self.table.entry(key)
            && entry.pair.phase == Phase::Open
        {
            let latency = &mut self.latency;
            let effect = self.buffers.transfer(entry, key, direction, latency);
            self.apply(key, effect);
        }
    }

    /// Applies the effect of a stage, and those that follow from it.
    fn apply(&mut self, key: SlotKey, mut effect: Effect) {
        let table = &mut self.table;
        loop {
            effect = match effect {
                Effect::Wait => return,
                Effect::CountSource => accept::count_source(table, key),
                Effect::Connect => connect::begin(table, key, &self.warnings),
                Effect::ConnectFailed(error) => connect::fail(table, key, &error, &self.warnings),
                Effect::Resume(direction) => return self.unread.push((key, direction)),
                Effect::CheckEnd => teardown::check_end(table, key),
                Effect::SourceBroke(direction) => {
                    teardown::drop_source(table, &mut self.buffers.pipes, key, direction)
                }
                Effect::SinkBroke(direction) => {
                    teardown::drop_sink(table, &mut self.buffers.pipes, key, direction)
                }
                Effect::Close(reason) => return table.close(key, reason),
                Effect::Exhausted(error) => {
                    table.close(key, CloseReason::NoBackend);
                    let (counters, now) = (&*table.counters, table.clock.now);
                    let acceptor = &mut self.acceptor;
                    return acceptor.pause(&mut table.driver, counters, now, &error);
                }
            }
        }
    }

    fn on_command(&mut self, command: WorkerCommand) {
        match command {
            WorkerCommand::Reload(frontends) => self.follow(&frontends),
            WorkerCommand::Drain(timeout) => {
                self.drain.begin(self.table.now(), timeout);
                self.close_removed_listeners(&[]);
                self.health.follow(&[], self.table.now());
            }
        }
    }

    fn meet_deadlines(&mut self) {
        let now = self.table.now();
        self.acceptor.resume_if_due(&mut self.table.driver, now);
        if self.drain.is_due(now) {
            self.close_all();
        }
        let mut due = mem::take(&mut self.due);
        self.table.expire(&mut due);
        for key in due.drain(..) {
            self.on_timer(key);
        }
        let timeouts = self.acceptor.listeners().iter();
        let timeouts = timeouts.map(|open| open.context.settings.idle_timeout);
        let shortest = timeouts.min().unwrap_or_default();
        self.idle_scan.visit(&self.table, shortest, &mut due);
        for key in due.drain(..) {
            self.table.close(key, CloseReason::Timeout);
        }
        self.due = due;
    }

    fn on_timer(&mut self, key: SlotKey) {
        let now = self.table.now();
        let Some(pair) = self.table.get(key) else {
            return;
        };
        let effect = deadlines::effect_of_timer(pair, now);
        self.apply(key, effect);
    }

    /// Closes all remaining pairs at the end of the drain.
    fn close_all(&mut self) {
        for slot in 0..self.table.slots() {
            if let Some((key, _)) = self.table.at(slot) {
                self.table.close(key, CloseReason::Drain);
            }
        }
        self.unread.clear();
    }

    fn report_latency(&mut self) {
        let clock = self.table.clock;
        let lost = self.latency.report(clock.unix_seconds);
        if lost > 0 {
            self.warnings.warn(clock.now, "latency", "", || {
                "lines of the latency report are lost: their reader is too slow".to_owned()
            });
        }
    }

    /// Marks the end of a stage of the turn.
    fn passed(&self, timing: &mut Timing, stage: Metric) {
        let clock = || self.table.driver.elapsed();
        timing.passed(stage, clock, &*self.table.counters);
    }
}

impl<D: RelayDriver> Handler for Worker<D> {
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
        [
            self.table.next_timer(now),
            self.idle_scan.next_in(&self.table, now),
            self.acceptor.resume_in(now),
            self.buffers.pipes.trim_in(now),
            self.health.next_in(now),
            self.latency.next_in(),
            self.drain.due_in(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn begin(&mut self, clock: Clock) {
        self.table.clock = clock;
        for (key, direction) in mem::take(&mut self.unread) {
            self.transfer(key, direction);
        }
    }

    fn on_listener(&mut self, id: u32) {
        self.accept(id, ACCEPTS_PER_TURN);
    }

    fn on_signal(&mut self, signal: Signal) {
        match SocketId::of(signal.token) {
            Some(SocketId::Pair(key, side)) => self.on_pair(key, side, signal),
            Some(SocketId::HealthCheck(index, attempt)) => {
                let now = self.table.now();
                let driver = &mut self.table.driver;
                self.health.on_signal(driver, now, index, attempt);
            }
            None => {}
        }
    }

    fn finish(&mut self, timing: &mut Timing) {
        for command in self.mailbox.take() {
            self.on_command(command);
        }
        self.passed(timing, Metric::StageMail);
        self.meet_deadlines();
        self.passed(timing, Metric::StageDeadlines);
        let now = self.table.now();
        self.health.run_due(&mut self.table.driver, now);
        self.passed(timing, Metric::StageChecks);
        if close::remove_closed(&mut self.table, &mut self.access_log) {
            self.acceptor.resume_soon(now);
        }
        self.buffers.pipes.trim(now, &self.table.counters);
        self.report_latency();
        self.access_log.flush(&self.table.counters);
        self.passed(timing, Metric::StageClosing);
    }

    fn is_over(&self) -> bool {
        self.drain.has_begun() && self.table.is_empty()
    }
}
