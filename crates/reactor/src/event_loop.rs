//! Event loop of a worker: wait, read the clock, act on signals, decide how long to sleep.
//!
//! Owns the order of these steps and measures the time they take. The program supplies the actions:
//! its [`Handler`].

use std::io;
use std::mem;
use std::time::Duration;

use crate::clock::Clock;
use crate::driver::{Driver, Signal, Tick, Token};
use crate::metrics::{Count, MetricSet};
use crate::timing::Timing;

/// Actions of a program in the turns of its worker. See [`EventLoop`] for an example.
pub trait Handler {
    /// The kernel, real or simulated.
    type Driver: Driver;
    /// The type of the worker's counters.
    type Counters: Count;

    /// Returns the worker's driver.
    fn driver(&mut self) -> &mut Self::Driver;

    /// Returns the worker's counters.
    fn counters(&self) -> &Self::Counters;

    /// Announces to other threads that the worker is about to sleep, so that they wake it. Returns
    /// whether its mailbox is empty. See [`Mailbox::may_sleep`](crate::Mailbox::may_sleep).
    fn may_sleep(&self) -> bool;

    /// Announces that the worker is awake. See [`Mailbox::wake_up`](crate::Mailbox::wake_up).
    fn wake_up(&self);

    /// Returns whether there is work that no signal, deadline or mail will announce.
    fn has_work(&self) -> bool;

    /// Returns the time until the next deadline; `None` without one.
    fn next_deadline(&self, now: Tick) -> Option<Duration>;

    /// Releases memory before the worker sleeps.
    fn before_sleep(&mut self) {}

    /// Takes the time at which a turn ended that is not followed by another one at once. Where one
    /// follows, its [`begin`](Self::begin) has it.
    fn rest(&mut self, _elapsed: Duration) {}

    /// Begins a turn. Resumes work that earlier turns left, before the signals: input that was kept
    /// for a connection must be handled before input that has arrived since.
    fn begin(&mut self, clock: Clock);

    /// Accepts connections that wait at a listener.
    fn on_listener(&mut self, id: u32);

    /// Acts on a signal of any other socket.
    fn on_signal(&mut self, signal: Signal);

    /// Ends a turn: handles mail, deadlines and everything else that is done once in a turn. The
    /// end of each timed stage is marked in `timing`.
    fn finish(&mut self, timing: &mut Timing);

    /// Returns whether the worker has ended.
    fn is_over(&self) -> bool;
}

/// Event loop of one worker. Lives as long as the worker.
///
/// A worker that ends with its first mail:
///
/// ```
/// use std::time::Duration;
///
/// use reactor::{
///     Clock, Counters, EventLoop, Handler, Mailbox, MetricSet, Signal, System, Tick, Timing,
/// };
///
/// reactor::metrics! {
///     /// Metrics of this worker.
///     enum Metric {
///         Counter "mails" [] "Mails handled." { Mails }
///         Counter "accepts" [] "Connections accepted." { Accepts }
///         Counter "accept_pauses" [] "Pauses in accepting." { AcceptPauses }
///         Time "stage_seconds" ["stage"] "Busy seconds by stage." {
///             StageSignals = "signals", StageAccept = "accept",
///         }
///     }
/// }
///
/// struct Worker<'a> {
///     driver: System,
///     counters: Counters<Metric, { Metric::ALL.len() }>,
///     mailbox: &'a Mailbox<&'static str>,
/// }
///
/// impl Handler for Worker<'_> {
///     type Driver = System;
///     type Counters = Counters<Metric, { Metric::ALL.len() }>;
///
///     fn driver(&mut self) -> &mut System { &mut self.driver }
///     fn counters(&self) -> &Self::Counters { &self.counters }
///     fn may_sleep(&self) -> bool { self.mailbox.may_sleep() }
///     fn wake_up(&self) { self.mailbox.wake_up() }
///     fn has_work(&self) -> bool { false }
///     fn next_deadline(&self, _: Tick) -> Option<Duration> { None }
///     fn begin(&mut self, _: Clock) {}
///     fn on_listener(&mut self, _: u32) {}
///     fn on_signal(&mut self, _: Signal) {}
///     fn finish(&mut self, _: &mut Timing) {
///         self.counters.add(Metric::Mails, self.mailbox.take().len() as u64);
///     }
///     fn is_over(&self) -> bool { self.counters.get(Metric::Mails) > 0 }
/// }
///
/// let mailbox = Mailbox::new(1)?;
/// let (driver, counters) = (System::new(&mailbox)?, Counters::default());
/// let mut worker = Worker { driver, counters, mailbox: &mailbox };
/// std::thread::scope(|scope| {
///     scope.spawn(|| mailbox.insert("wakes the worker"));
///     EventLoop::new(&worker.driver).run(&mut worker)
/// })?;
/// assert_eq!(worker.counters.get(Metric::Mails), 1);
/// assert!(worker.counters.get(Metric::Turns) >= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EventLoop {
    clock: Clock,
    timing: Timing,
    signals: Vec<Signal>,
}

impl EventLoop {
    /// Makes a loop that has taken no turn.
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
    /// When the poller fails, which means a bug in the program.
    pub fn run(&mut self, handler: &mut impl Handler) -> io::Result<()> {
        while !handler.is_over() {
            let timeout = self.prepare(handler);
            self.wait(handler, timeout)?;
            self.act(handler);
        }
        Ok(())
    }

    /// Decides how long the next wait may last; `None` for no limit.
    ///
    /// The three parts of a turn are public for tests whose driver cannot block.
    pub fn prepare(&mut self, handler: &mut impl Handler) -> Option<Duration> {
        if handler.has_work() || !handler.may_sleep() {
            return Some(Duration::ZERO);
        }
        handler.before_sleep();
        let elapsed = handler.driver().elapsed();
        self.timing.rest(elapsed, handler.counters());
        handler.rest(elapsed);
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
