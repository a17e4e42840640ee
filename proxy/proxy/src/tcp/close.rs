//! Stage 6: removal of closed pairs. No other module removes one.

use std::sync::atomic::Ordering;

use reactor::{RelayDriver, Source};

use crate::tcp::access_log::AccessLogLines;
use crate::tcp::close_reason::CloseReason;
use crate::tcp::metrics::Metric;
use crate::tcp::pair::Pending;
use crate::tcp::pair_table::{PairOf, PairTable};

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
