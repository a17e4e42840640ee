//! A new plan for a running worker, and its end. Neither touches a connection that goes on.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Relay, Tick};

use crate::tcp::closing::CloseReason;
use crate::tcp::front::Plan;
use crate::tcp::worker::{Mail, Worker};

/// Whether a worker is to end.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    until: Option<Tick>,
}

impl Drain {
    pub(crate) fn ends_in(&self, now: Tick) -> Option<Duration> {
        self.until.map(|until| until.since(now))
    }
}

impl<D: Relay> Worker<D> {
    pub(crate) fn on_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Plan(plan) => self.follow(&plan),
            Mail::Drain(timeout) => {
                let until = self.now.after(timeout);
                // A second one may only hurry.
                let sooner = self.drain.until.map_or(until, |before| before.min(until));
                self.drain.until = Some(sooner);
                self.close_listeners(|_| false);
                self.health.follow(&Plan::from([]), self.now);
            }
        }
    }

    /// Listens where the plan says. A listener that stays is not closed for a moment, and takes its new
    /// settings with the next connection.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        if self.drain.until.is_some() {
            return;
        }
        // Those that go are closed last: a new one may take over their port.
        for front in plan.iter() {
            let mut open = self.accepting.open.iter_mut();
            match open.find(|open| open.front.address == front.address) {
                Some(open) => open.front = Arc::clone(front),
                None => {
                    if let Err(error) = self.listen(front) {
                        let (worker, address) = (self.number, front.address);
                        tracing::error!(
                            "worker {worker} cannot listen at {address}: {error}; connections that \
                             the kernel would give it go to the others"
                        );
                    }
                }
            }
        }
        self.close_listeners(|address| plan.iter().any(|front| front.address == address));
        // One worker looks after backends for all.
        if self.number == 0 {
            self.health.follow(plan, self.now);
        }
    }

    /// Ends all that is left when the time to end is over.
    pub(crate) fn end_in_time(&mut self) {
        if self.drain.until.is_none_or(|until| until > self.now) {
            return;
        }
        for slot in 0..self.pairs.slots() {
            if let Some((key, _)) = self.pairs.at(slot) {
                self.close(key, CloseReason::Drain);
            }
        }
        mem::take(&mut self.unread);
    }

    /// Whether the worker has nothing left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.drain.until.is_some() && self.pairs.is_empty()
    }
}
