//! Event loop in virtual time, for a driver that cannot block.
//!
//! A real poller returns when there is a signal, when the timeout has passed, or when the mailbox
//! is rung. Here too the worker takes a turn for these reasons only: after a lost wake-up or a
//! forgotten deadline it stays parked, and the test sees that nothing happens.

use reactor::{EventLoop, Handler, Mailbox, Tick};

use super::driver::SimDriver;

/// Event loop of the worker under test.
#[derive(Debug)]
pub(crate) struct SimulatedLoop {
    event_loop: EventLoop,
    /// When the worker must wake even if nothing happens; `None` for never.
    deadline: Option<Tick>,
}

impl SimulatedLoop {
    /// Makes a loop whose worker is parked.
    pub(crate) fn new<H: Handler<Driver = SimDriver>>(handler: &mut H) -> Self {
        let mut parked = Self {
            event_loop: EventLoop::new(handler.driver()),
            deadline: None,
        };
        parked.park(handler);
        parked
    }

    /// Lets the worker take a turn if it has a reason to wake. Returns whether it had.
    pub(crate) fn turn<H: Handler<Driver = SimDriver>, T>(
        &mut self,
        handler: &mut H,
        mailbox: &Mailbox<T>,
    ) -> bool {
        let network = &handler.driver().0;
        let now = network.borrow().now;
        let has_signals = network.borrow().has_signals();
        let is_due = self.deadline.is_some_and(|deadline| deadline <= now);
        let is_rung = !mailbox.is_asleep();
        if !has_signals && !is_due && !is_rung {
            return false;
        }
        let waited = self.event_loop.wait(handler, None);
        waited.expect("the simulated poller does not fail");
        self.event_loop.act(handler);
        self.park(handler);
        true
    }

    /// Parks the worker. Must be called exactly once per turn: the worker checks its mailbox here,
    /// and an additional check would hide a message that did not wake it.
    fn park<H: Handler<Driver = SimDriver>>(&mut self, handler: &mut H) {
        let timeout = self.event_loop.prepare(handler);
        let now = handler.driver().0.borrow().now;
        self.deadline = timeout.map(|timeout| now.after(timeout));
    }
}
