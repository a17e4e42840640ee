//! Stage 6: removal of closed pairs. No other module removes one.

use std::sync::atomic::Ordering;

use reactor::{RelayDriver, Source};

use crate::tcp::access_log::AccessLogLines;
use crate::tcp::metrics::Metric;
use crate::tcp::pair::Pending;
use crate::tcp::pair_table::{PairOf, PairTable};

/// Reason why a pair is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// Both sides have ended, and each has received everything that the other one sent.
    Done,
    /// A side was reset or failed.
    Reset,
    /// No bytes moved for too long.
    Timeout,
    /// No backend accepted a connection.
    NoBackend,
    /// The client did not send a valid PROXY header in time.
    Header,
    /// The client's source has reached its limit of connections.
    Refused,
    /// The proxy is shutting down.
    Drain,
}

impl CloseReason {
    /// Returns the reason's name in the access log.
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
            // Counted at the refusal.
            Self::Refused => return None,
        })
    }
}

/// Removes the pairs that were closed in this turn. Returns whether there were any, which means
/// that descriptors became free.
pub(crate) fn remove_closed<D: RelayDriver>(
    table: &mut PairTable<D>,
    access_log: &mut AccessLogLines,
) -> bool {
    let mut removed = false;
    while let Some((pair, reason)) = table.remove_closed() {
        remove(table, access_log, &pair, reason);
        removed = true;
    }
    removed
}

fn remove<D: RelayDriver>(
    table: &mut PairTable<D>,
    access_log: &mut AccessLogLines,
    pair: &PairOf<D>,
    reason: CloseReason,
) {
    let now = table.now();
    if let Some(metric) = reason.metric() {
        table.counters.add(metric, 1);
    }
    table.counters.take(Metric::Connections, 1);
    let sockets = 1 + u64::from(pair.server.is_some());
    table.counters.add(Metric::Closes, sockets);
    let must_reset = match reason {
        CloseReason::Reset | CloseReason::NoBackend => true,
        CloseReason::Timeout | CloseReason::Drain => pair.is_transferring(now),
        CloseReason::Done | CloseReason::Header | CloseReason::Refused => false,
    };
    if must_reset {
        table.driver.reset_on_close(&pair.client);
        if let Some(server) = &pair.server {
            table.driver.reset_on_close(server);
        }
    }
    for flow in [&pair.up, &pair.down] {
        if let Some(Pending::Pipe(..)) = flow.pending.as_deref() {
            table.counters.take(Metric::Pipes, 1);
        }
    }
    let counts = &pair.frontend.counts;
    counts.leave();
    if let Some(backend) = &pair.backend {
        backend.connections.fetch_sub(1, Ordering::Relaxed);
    }
    if let Some(info) = pair.client_info.as_deref() {
        if info.counted {
            counts.sources.leave(Source::from(info.source.ip()));
        }
        if pair.frontend.settings.access_log {
            access_log.append(pair, info, reason, table.clock);
        }
    }
}
