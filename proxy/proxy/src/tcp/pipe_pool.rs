//! Pipes for bulk transfer: the kernel moves pages, and no byte is copied to the process.
//!
//! A worker lends a pipe to a direction during bulk transfer. An idle pair has none.

use std::time::Duration;

use reactor::{RelayDriver, Tick};

use crate::tcp::limits::{IDLE_PIPES_MAX, PIPE_IDLE_TIMEOUT};
use crate::tcp::metrics::{Metric, WorkerCounters};
use crate::tcp::pair::Pending;

/// Empty pipes of one worker, kept for reuse.
#[derive(Debug)]
pub(crate) struct PipePool<P> {
    idle: Vec<P>,
    /// When a pipe was last returned.
    last_returned: Tick,
}

impl<P> Default for PipePool<P> {
    fn default() -> Self {
        Self {
            idle: Vec::new(),
            last_returned: Tick(0),
        }
    }
}

impl<P> PipePool<P> {
    /// Lends a pipe; `None` if the kernel has none left.
    pub(crate) fn lend<D: RelayDriver<Pipe = P>>(
        &mut self,
        driver: &mut D,
        counters: &WorkerCounters,
    ) -> Option<P> {
        if let Some(pipe) = self.idle.pop() {
            return Some(pipe);
        }
        let pipe = driver.pipe().ok()?;
        counters.add(Metric::Pipes, 1);
        Some(pipe)
    }

    /// Takes back what a direction held. A pipe that is not empty is closed, so that no other
    /// direction gets its bytes.
    pub(crate) fn give_back(
        &mut self,
        pending: Option<Box<Pending<P>>>,
        now: Tick,
        counters: &WorkerCounters,
    ) {
        match pending.map(|pending| *pending) {
            Some(Pending::Pipe(pipe, 0)) if self.idle.len() < IDLE_PIPES_MAX => {
                self.last_returned = now;
                self.idle.push(pipe);
            }
            Some(Pending::Pipe(..)) => counters.take(Metric::Pipes, 1),
            Some(Pending::Bytes(..)) | None => {}
        }
    }

    /// Closes all idle pipes if none was returned for a while.
    pub(crate) fn trim(&mut self, now: Tick, counters: &WorkerCounters) {
        if !self.idle.is_empty() && now.since(self.last_returned) >= PIPE_IDLE_TIMEOUT {
            counters.take(Metric::Pipes, self.idle.len() as u64);
            self.idle = Vec::new();
        }
    }

    /// Returns the time until idle pipes are closed, if there are any.
    pub(crate) fn trim_in(&self, now: Tick) -> Option<Duration> {
        (!self.idle.is_empty())
            .then(|| PIPE_IDLE_TIMEOUT.saturating_sub(now.since(self.last_returned)))
    }
}
