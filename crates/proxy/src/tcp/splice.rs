//! Bulk through pipes: the kernel hands pages on, and no byte is copied here.
//!
//! Pipes belong to the worker and are lent to a direction while bulk flows. An idle pair has none.

use std::time::Duration;

use reactor::{Relay, Tick};

use crate::tcp::limits::{PIPE_REST, SPARE_PIPES};
use crate::tcp::pair::Held;
use crate::tcp::stats::{Metric, WorkerStats};

/// Empty pipes that wait for bulk.
#[derive(Debug)]
pub(crate) struct Pipes<P> {
    spare: Vec<P>,
    /// When a pipe was last given back.
    rested: Tick,
}

impl<P> Default for Pipes<P> {
    fn default() -> Self {
        Self {
            spare: Vec::new(),
            rested: Tick(0),
        }
    }
}

impl<P> Pipes<P> {
    /// Lends a pipe; `None` when the kernel has none.
    pub(crate) fn lend<D: Relay<Pipe = P>>(
        &mut self,
        driver: &mut D,
        stats: &WorkerStats,
    ) -> Option<P> {
        if let Some(pipe) = self.spare.pop() {
            return Some(pipe);
        }
        let pipe = driver.pipe().ok()?;
        stats.add(Metric::Pipes, 1);
        Some(pipe)
    }

    /// Takes back what a direction held. A pipe with something in it is of no use to others.
    pub(crate) fn take_back(&mut self, held: Option<Box<Held<P>>>, now: Tick, stats: &WorkerStats) {
        match held.map(|held| *held) {
            Some(Held::Pipe(pipe, 0)) if self.spare.len() < SPARE_PIPES => {
                self.rested = now;
                self.spare.push(pipe);
            }
            Some(Held::Pipe(..)) => stats.take(Metric::Pipes, 1),
            Some(Held::Bytes(..)) | None => {}
        }
    }

    /// Closes pipes that nobody has wanted for a while.
    pub(crate) fn trim(&mut self, now: Tick, stats: &WorkerStats) {
        if !self.spare.is_empty() && now.since(self.rested) >= PIPE_REST {
            stats.take(Metric::Pipes, self.spare.len() as u64);
            self.spare = Vec::new();
        }
    }

    pub(crate) fn trim_in(&self, now: Tick) -> Option<Duration> {
        (!self.spare.is_empty()).then(|| PIPE_REST.saturating_sub(now.since(self.rested)))
    }
}
