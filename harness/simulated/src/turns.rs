//! Turns of a worker in virtual time, for a driver that cannot block.
//!
//! A real poller returns when there is a signal, when the timeout has passed, or when the mailbox
//! is rung. Here too the worker takes a turn for these reasons only: after a lost wake-up or a
//! forgotten deadline it stays parked, and the test sees that nothing happens.

use std::time::Duration;

use reactor::{EventLoop, Handler, Mailbox, Tick};

use crate::driver::SimDriver;

/// Turns of a worker, and its sleep between them.
#[derive(Debug)]
pub struct Turns {
    event_loop: EventLoop,
    /// When the worker must wake even if nothing happens. None is never.
    deadline: Option<Tick>,
}

impl Turns {
    /// Parks a worker, which has taken no turn.
    pub fn new<H: Handler<Driver = SimDriver>>(worker: &mut H) -> Self {
        let mut turns = Self {
            event_loop: EventLoop::new(worker.driver()),
            deadline: None,
        };
        turns.park(worker);
        turns
    }

    /// Lets the worker take a turn, if it has a reason to: work of its own, a signal, a deadline or
    /// a rung mailbox. Returns whether it had.
    ///
    /// # Panics
    ///
    /// Where the worker does.
    pub fn take<H, T>(&mut self, worker: &mut H, mailbox: &Mailbox<T>) -> bool
    where
        H: Handler<Driver = SimDriver>,
    {
        let network = &worker.driver().0;
        let now = network.borrow().now;
        let has_signals = network.borrow().has_signals();
        let is_due = self.deadline.is_some_and(|deadline| deadline <= now);
        let is_rung = !mailbox.is_asleep();
        if !has_signals && !is_due && !is_rung {
            return false;
        }
        let waited = self.event_loop.wait(worker, Some(Duration::ZERO));
        waited.expect("the simulated poller does not fail");
        self.event_loop.act(worker);
        self.park(worker);
        true
    }

    /// Parks the worker. Must be called exactly once per turn: the worker checks its mailbox here,
    /// and an additional check would hide a message that did not wake it.
    fn park<H: Handler<Driver = SimDriver>>(&mut self, worker: &mut H) {
        let timeout = self.event_loop.prepare(worker);
        let now = worker.driver().0.borrow().now;
        // A kernel never wakes a worker early.
        let round_up = |timeout| now.after(timeout + Duration::from_nanos(999_999));
        self.deadline = timeout.map(round_up);
    }
}
