//! The time between a request and its answer, for protocols in which one follows the other. Nothing is
//! decoded: a request is what a client says before the backend does, and its time runs from its last
//! bytes to the first of the answer (tcprstat, Percona 2010).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::tcp::backend::Backend;
use crate::tcp::front::Front;
use crate::tcp::pair::{Direction, Pair};

/// How often a worker that measures looks at the clock.
const INTERVAL: Duration = Duration::from_millis(100);

/// The longest time that is told apart, in microseconds: half of what wraps.
const MICROS_MAX: u64 = 1 << 31;

/// Requests answered within one second, as one worker saw them.
#[derive(Debug)]
pub struct LatencyReport {
    /// Seconds since 1970.
    pub unix_seconds: u64,
    /// The listener's address.
    pub listener: SocketAddr,
    /// The backend's name.
    pub backend: String,
    /// Microseconds, to two digits.
    pub micros: Histogram<u64>,
}

/// What a worker measures.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    reports: Option<Sender<LatencyReport>>,
    /// By the addresses of the two records, which the entry keeps alive.
    by_backend: HashMap<(usize, usize), Entry>,
    /// The second in which the first of them came.
    second: Option<u64>,
    is_new: bool,
}

#[derive(Debug)]
struct Entry {
    front: Arc<Front>,
    backend: Arc<Backend>,
    micros: Histogram<u64>,
}

impl Latency {
    pub(crate) fn new(reports: Option<Sender<LatencyReport>>) -> Self {
        Self {
            reports,
            ..Self::default()
        }
    }

    /// Bytes of a pair have moved.
    pub(crate) fn moved<S, P>(
        &mut self,
        pair: &mut Pair<S, P>,
        direction: Direction,
        micros: impl FnOnce() -> u64,
    ) {
        match direction {
            // Zero stands for no request.
            Direction::Up => pair.asked = (micros() as u32).max(1),
            Direction::Down if pair.asked == 0 => {}
            Direction::Down => {
                let passed = (micros() as u32).wrapping_sub(pair.asked);
                pair.asked = 0;
                if let Some(backend) = &pair.server {
                    self.record(&pair.front, backend, passed.into());
                }
            }
        }
    }

    fn record(&mut self, front: &Arc<Front>, backend: &Arc<Backend>, passed: u64) {
        let key = (Arc::as_ptr(front).addr(), Arc::as_ptr(backend).addr());
        let entry = self.by_backend.entry(key).or_insert_with(|| Entry {
            front: Arc::clone(front),
            backend: Arc::clone(backend),
            micros: Histogram::new_with_bounds(1, MICROS_MAX, 2).expect("sound bounds"),
        });
        entry.micros.saturating_record(passed);
        self.is_new = true;
    }

    /// Hands on what a second that is over has brought.
    pub(crate) fn turn(&mut self, unix_seconds: impl FnOnce() -> u64) {
        if !self.is_new {
            return;
        }
        let now = unix_seconds();
        match self.second {
            None => self.second = Some(now),
            Some(second) if second != now => self.flush(),
            Some(_) => {}
        }
    }

    /// Hands on all there is.
    pub(crate) fn flush(&mut self) {
        let (Some(second), Some(reports)) = (self.second.take(), &self.reports) else {
            return;
        };
        self.is_new = false;
        // Backends without an answer in this second are forgotten, so that those of old plans go.
        for (_, entry) in self.by_backend.drain() {
            // Nobody reads any more when the proxy ends.
            let _ = reports.send(LatencyReport {
                unix_seconds: second,
                listener: entry.front.address,
                backend: entry.backend.name.clone(),
                micros: entry.micros,
            });
        }
    }

    pub(crate) fn next_in(&self) -> Option<Duration> {
        self.is_new.then_some(INTERVAL)
    }
}
