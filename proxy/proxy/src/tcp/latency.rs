//! Time between a request and its answer, for protocols in which they alternate. Nothing is
//! decoded: a request is what the client sends before the backend does, and its time runs from its
//! last bytes to the first bytes of the answer (tcprstat, Percona 2010).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::tcp::backend::Backend;
use crate::tcp::frontend::Frontend;
use crate::tcp::pair::{Direction, Pair};

/// Interval at which a worker checks whether a second with measurements is over.
const INTERVAL: Duration = Duration::from_millis(100);

/// Longest time that is measured, in microseconds: half of the range of a wrapping time stamp.
const MICROS_MAX: u64 = 1 << 31;

/// Requests that one worker saw answered within one second.
#[derive(Debug)]
pub struct LatencyReport {
    /// Seconds since 1970.
    pub unix_seconds: u64,
    /// Address of the listener.
    pub listener: SocketAddr,
    /// Name of the backend.
    pub backend: String,
    /// Latencies in microseconds, to two significant digits.
    pub micros: Histogram<u64>,
}

/// Latencies measured by one worker. Lives as long as the worker.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorder {
    reports: Option<SyncSender<LatencyReport>>,
    /// Keyed by the addresses in memory of the frontend and the backend, which the entry keeps
    /// alive.
    by_backend: HashMap<(usize, usize), Entry>,
    /// Second of the first of them.
    second: Option<u64>,
    is_new: bool,
}

#[derive(Debug)]
struct Entry {
    frontend: Arc<Frontend>,
    backend: Arc<Backend>,
    micros: Histogram<u64>,
}

impl LatencyRecorder {
    /// Makes a recorder that sends its reports to a channel, if there is one.
    pub(crate) fn new(reports: Option<SyncSender<LatencyReport>>) -> Self {
        Self {
            reports,
            ..Self::default()
        }
    }

    /// Records that bytes of a pair were passed on.
    pub(crate) fn record<S, P>(
        &mut self,
        pair: &mut Pair<S, P>,
        direction: Direction,
        micros: impl FnOnce() -> u64,
    ) {
        match direction {
            // Zero stands for no request.
            Direction::Up => pair.request_micros = (micros() as u32).max(1),
            Direction::Down if pair.request_micros == 0 => {}
            Direction::Down => {
                let passed = (micros() as u32).wrapping_sub(pair.request_micros);
                pair.request_micros = 0;
                if let Some(backend) = &pair.backend {
                    self.add(&pair.frontend, backend, passed.into());
                }
            }
        }
    }

    fn add(&mut self, frontend: &Arc<Frontend>, backend: &Arc<Backend>, micros: u64) {
        let key = (Arc::as_ptr(frontend).addr(), Arc::as_ptr(backend).addr());
        let entry = self.by_backend.entry(key).or_insert_with(|| Entry {
            frontend: Arc::clone(frontend),
            backend: Arc::clone(backend),
            micros: Histogram::new_with_bounds(1, MICROS_MAX, 2).expect("valid bounds"),
        });
        entry.micros.saturating_record(micros);
        self.is_new = true;
    }

    /// Sends the reports of a second that is over. Returns how many were dropped because the
    /// channel was full.
    pub(crate) fn report(&mut self, unix_seconds: u64) -> usize {
        if !self.is_new {
            return 0;
        }
        match self.second {
            None => self.second = Some(unix_seconds),
            Some(second) if second != unix_seconds => return self.flush(),
            Some(_) => {}
        }
        0
    }

    /// Sends all reports. Returns how many were dropped because the channel was full.
    pub(crate) fn flush(&mut self) -> usize {
        let (Some(second), Some(reports)) = (self.second.take(), &self.reports) else {
            return 0;
        };
        self.is_new = false;
        // Backends without an answer in this second are removed, and with them those of old
        // configurations.
        let mut lost = 0;
        for (_, entry) in self.by_backend.drain() {
            let sent = reports.try_send(LatencyReport {
                unix_seconds: second,
                listener: entry.frontend.address,
                backend: entry.backend.name.clone(),
                micros: entry.micros,
            });
            // A reader that has gone needs no reports; a slow one misses some.
            lost += usize::from(matches!(sent, Err(TrySendError::Full(_))));
        }
        lost
    }

    /// Returns the time until the next check whether a second is over, if anything is recorded.
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
    fn a_slow_reader_loses_reports_and_delays_no_worker() {
        let address: SocketAddr = "127.0.0.1:80".parse().expect("valid");
        let backends = ["a", "b", "c"].map(|name| BackendAddress {
            name: name.to_owned(),
            address,
        });
        let settings = ListenerSettings::new(address, backends.to_vec());
        let frontend = Arc::new(Frontend::new(address, settings, None));
        let (sender, receiver) = sync_channel(2);
        let mut latency = LatencyRecorder::new(Some(sender));
        let mut measure = |second| {
            for backend in &frontend.backends {
                latency.add(&frontend, backend, 10);
            }
            latency.report(second) + latency.report(second + 1)
        };
        assert_eq!(measure(0), 1);
        assert_eq!(measure(2), 3);
        assert_eq!(receiver.try_iter().count(), 2);
        assert_eq!(measure(4), 1, "reports resume when the reader reads");
        drop(receiver);
        assert_eq!(measure(6), 0, "no reader, no report to lose");
    }
}
