//! An event loop in virtual time, for a driver that cannot block.
//!
//! A real poller returns for a signal, when the timeout has passed, and when the mailbox is rung.
//! Neither does the worker act here for any other reason: a wake-up that is lost, or a deadline
//! that the worker forgets, leaves it parked, and the test sees that nothing happens.

use reactor::{EventLoop, Handler, Mailbox, Tick};

use super::driver::SimDriver;

/// The loop of the worker under test.
#[derive(Debug)]
pub(crate) struct SimulatedLoop {
    event_loop: EventLoop,
    /// When the worker must wake though nothing happens; `None` for never.
    deadline: Option<Tick>,
}

impl SimulatedLoop {
    /// A loop whose worker is parked.
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

    /// Must be called once for each turn: the worker looks into its mailbox here, which would hide
    /// that nothing has woken it for a message that came since.
    fn park<H: Handler<Driver = SimDriver>>(&mut self, handler: &mut H) {
        let timeout = self.event_loop.prepare(handler);
        let now = handler.driver().0.borrow().now;
        self.deadline = timeout.map(|timeout| now.after(timeout));
    }
}
