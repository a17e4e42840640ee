//! The turn of every worker: wait, read the clock, act on what happened, decide how long to sleep.
//!
//! Owns the order of these steps and the account of the time they take. What a program does in a
//! turn is its [`Handler`].

use std::io;
use std::mem;
use std::time::Duration;

use crate::clock::Clock;
use crate::driver::{Driver, Signal, Tick, Token};
use crate::metrics::{Count, MetricSet};
use crate::timing::Timing;

/// What one program does in the turns of a worker.
pub trait Handler {
    /// The kernel, real or simulated.
    type Driver: Driver;
    /// Where the worker counts.
    type Counters: Count;

    /// The worker's view of the kernel.
    fn driver(&mut self) -> &mut Self::Driver;

    /// The worker's counters.
    fn counters(&self) -> &Self::Counters;

    /// Announces to other threads that the worker is about to sleep, so that they wake it. Returns
    /// whether its mailbox is empty. See [`Mailbox::may_sleep`](crate::Mailbox::may_sleep).
    fn may_sleep(&self) -> bool;

    /// Says that the worker is awake. See [`Mailbox::wake_up`](crate::Mailbox::wake_up).
    fn wake_up(&self);

    /// Whether there is work that no signal, deadline or mail will announce.
    fn has_work(&self) -> bool;

    /// Time until the next deadline; `None` without one.
    fn next_deadline(&self, now: Tick) -> Option<Duration>;

    /// Gives back memory before the worker sleeps.
    fn before_sleep(&mut self) {}

    /// Begins a turn. Work left over by earlier turns is resumed here, before the signals: what was
    /// kept of a connection must be handled before what has arrived since.
    fn begin(&mut self, clock: Clock);

    /// Acts on connections that wait at a listener.
    fn on_listener(&mut self, id: u32);

    /// Acts on what the poller reports of any other socket.
    fn on_signal(&mut self, signal: Signal);

    /// Ends a turn: mail, deadlines and whatever else the program does once in a turn. Stages that
    /// are to be timed are marked in `timing`.
    fn finish(&mut self, timing: &mut Timing);

    /// Whether the worker has ended.
    fn is_over(&self) -> bool;
}

/// The loop of one worker. Lives as long as the worker.
#[derive(Debug)]
pub struct EventLoop {
    clock: Clock,
    timing: Timing,
    signals: Vec<Signal>,
}

impl EventLoop {
    /// A loop that has taken no turn.
    pub fn new(driver: &impl Driver) -> Self {
        Self {
            clock: Clock::new(driver),
            timing: Timing::default(),
            signals: Vec::new(),
        }
    }

    /// Takes turns until the worker has ended.
    ///
    /// # Errors
    ///
    /// When the poller fails, which a correct program does not see.
    pub fn run(&mut self, handler: &mut impl Handler) -> io::Result<()> {
        while !handler.is_over() {
            let timeout = self.prepare(handler);
            self.wait(handler, timeout)?;
            self.act(handler);
        }
        Ok(())
    }

    /// Decides how long the next wait may last; `None` for as long as it takes.
    ///
    /// Public, like the other two parts of a turn, for tests whose driver cannot block.
    pub fn prepare(&mut self, handler: &mut impl Handler) -> Option<Duration> {
        if handler.has_work() || !handler.may_sleep() {
            return Some(Duration::ZERO);
        }
        handler.before_sleep();
        let elapsed = handler.driver().elapsed();
        self.timing.rest(elapsed, handler.counters());
        handler.next_deadline(Tick::default().after(elapsed))
    }

    /// Waits for signals.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::wait`].
    pub fn wait(
        &mut self,
        handler: &mut impl Handler,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        handler.driver().wait(timeout, &mut self.signals)
    }

    /// Acts on the signals that the wait returned.
    pub fn act<H: Handler>(&mut self, handler: &mut H) {
        handler.wake_up();
        self.clock.read(handler.driver());
        let Clock { elapsed, .. } = self.clock;
        self.timing
            .begin(elapsed, self.signals.len(), handler.counters());
        handler.begin(self.clock);
        let signals = mem::take(&mut self.signals);
        for &signal in &signals {
            match signal.token.listener_id() {
                Some(id) => {
                    self.pass(handler, MetricSet::STAGE_SIGNALS);
                    handler.on_listener(id);
                    self.pass(handler, MetricSet::STAGE_ACCEPT);
                }
                None if signal.token == Token::MAILBOX => {}
                None => handler.on_signal(signal),
            }
        }
        self.signals = signals;
        self.pass(handler, MetricSet::STAGE_SIGNALS);
        handler.finish(&mut self.timing);
    }

    /// Ends a stage of the turn.
    fn pass<H: Handler>(&mut self, handler: &mut H, stage: <H::Counters as Count>::Metric) {
        if self.timing.is_timed() {
            let elapsed = handler.driver().elapsed();
            self.timing.passed(stage, || elapsed, handler.counters());
        }
    }
}
