//! The time between a request and its answer, for protocols in which one follows the other. Nothing is
//! decoded: a request is what a client says before the backend does, and its time runs from its last
//! bytes to the first of the answer (tcprstat, Percona 2010).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
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
    reports: Option<SyncSender<LatencyReport>>,
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
    pub(crate) fn new(reports: Option<SyncSender<LatencyReport>>) -> Self {
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

    /// Hands on what a second that is over has brought. Returns how many reports nobody took.
    pub(crate) fn turn(&mut self, unix_seconds: impl FnOnce() -> u64) -> usize {
        if !self.is_new {
            return 0;
        }
        let now = unix_seconds();
        match self.second {
            None => self.second = Some(now),
            Some(second) if second != now => return self.flush(),
            Some(_) => {}
        }
        0
    }

    /// Hands on all there is. Returns how many reports nobody took.
    pub(crate) fn flush(&mut self) -> usize {
        let (Some(second), Some(reports)) = (self.second.take(), &self.reports) else {
            return 0;
        };
        self.is_new = false;
        // Backends without an answer in this second are forgotten, so that those of old plans go.
        let mut lost = 0;
        for (_, entry) in self.by_backend.drain() {
            let sent = reports.try_send(LatencyReport {
                unix_seconds: second,
                listener: entry.front.address,
                backend: entry.backend.name.clone(),
                micros: entry.micros,
            });
            // Whoever has gone for good wants none; whoever is slow loses some.
            lost += usize::from(matches!(sent, Err(TrySendError::Full(_))));
        }
        lost
    }

    pub(crate) fn next_in(&self) -> Option<Duration> {
        self.is_new.then_some(INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::tcp::settings::{BackendAddress, ListenerSettings};

    #[test]
    fn who_does_not_read_loses_reports_and_holds_nobody_up() {
        let address: SocketAddr = "127.0.0.1:80".parse().expect("valid");
        let backends = ["a", "b", "c"].map(|name| BackendAddress {
            name: name.to_owned(),
            address,
        });
        let settings = ListenerSettings::new(address, backends.to_vec());
        let front = Arc::new(Front::new(address, settings, None));
        let (sender, receiver) = sync_channel(2);
        let mut latency = Latency::new(Some(sender));
        let mut measure = |second| {
            for backend in &front.backends {
                latency.record(&front, backend, 10);
            }
            latency.turn(|| second) + latency.turn(|| second + 1)
        };
        assert_eq!(measure(0), 1);
        assert_eq!(measure(2), 3);
        assert_eq!(receiver.try_iter().count(), 2);
        assert_eq!(measure(4), 1, "it goes on with who reads again");
        drop(receiver);
        assert_eq!(measure(6), 0, "who is gone wants none");
    }
}
