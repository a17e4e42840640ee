//! The last stage: the only place where a pair ends.

use std::mem;
use std::sync::atomic::Ordering;

use reactor::{Relay, SlotKey};

use crate::tcp::pair::{Held, Phase};
use crate::tcp::stats::Metric;
use crate::tcp::worker::Worker;

/// Why a pair ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// Both sides have ended and have all that the other said.
    Done,
    /// A side broke.
    Reset,
    /// Nothing moved for too long.
    Timeout,
    /// No backend took it.
    NoBackend,
    /// It did not begin with a PROXY header, or not in time.
    Header,
    /// Its source has as many connections as it may.
    Refused,
    /// The proxy has ended.
    Drain,
}

impl CloseReason {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::NoBackend => "no-backend",
            Self::Header => "header",
            Self::Refused => "refused",
            Self::Drain => "drain",
        }
    }

    const fn metric(self) -> Option<Metric> {
        Some(match self {
            Self::Done => Metric::ClosedDone,
            Self::Reset => Metric::ClosedReset,
            Self::Timeout => Metric::ClosedTimeout,
            Self::NoBackend => Metric::ClosedNoBackend,
            Self::Header => Metric::ClosedHeader,
            Self::Drain => Metric::ClosedDrain,
            // Counted where it was refused.
            Self::Refused => return None,
        })
    }
}

/// A pair that will be gone when the turn ends. Its slot stays taken until then: a later signal of the
/// same batch may name it, and must meet it closed.
#[derive(Debug)]
pub(crate) struct Closing {
    key: SlotKey,
    reason: CloseReason,
}

impl<D: Relay> Worker<D> {
    /// Ends a pair; its slot is free after the turn.
    pub(crate) fn close(&mut self, key: SlotKey, reason: CloseReason) {
        if let Some(pair) = self.pair(key) {
            pair.phase = Phase::Closed;
            self.closing.push(Closing { key, reason });
        }
    }

    /// Frees what was closed in this turn.
    pub(crate) fn close_all(&mut self) {
        for Closing { key, reason } in mem::take(&mut self.closing) {
            let Some(pair) = self.pairs.remove(key) else {
                continue;
            };
            if let Some(metric) = reason.metric() {
                self.stats.add(metric, 1);
            }
            self.stats.take(Metric::Connections, 1);
            let sockets = 1 + u64::from(pair.backend.is_some());
            self.stats.add(Metric::Closes, sockets);
            let must_reset = match reason {
                CloseReason::Reset | CloseReason::NoBackend => true,
                CloseReason::Timeout | CloseReason::Drain => pair.is_under_way(self.now),
                CloseReason::Done | CloseReason::Header | CloseReason::Refused => false,
            };
            if must_reset {
                self.driver.reset_on_close(&pair.client);
                if let Some(backend) = &pair.backend {
                    self.driver.reset_on_close(backend);
                }
            }
            for flow in [&pair.up, &pair.down] {
                if let Some(Held::Pipe(..)) = flow.held.as_deref() {
                    self.stats.take(Metric::Pipes, 1);
                }
            }
            pair.front.counts.leave();
            if let Some(server) = &pair.server {
                server.connections.fetch_sub(1, Ordering::Relaxed);
            }
            if let Some(origin) = pair.origin.as_deref() {
                if origin.counted {
                    pair.front.counts.leave_source(origin.source.ip());
                }
                if pair.front.settings.access_log {
                    let now = self.driver.unix_seconds();
                    self.access.write(&pair, origin, reason, self.now, now);
                }
            }
            self.resume_soon();
        }
    }
}
