//! Time limits.
//!
//! A pair has a timer only in phases that must be short: while it waits for its header, its backend
//! or a last acknowledgement. Idle pairs are found by a scan over all slots, which needs no memory
//! per pair.

use std::time::Duration;

use reactor::{RelayDriver, SlotKey, SlotScan, Tick};
use rustix::io::Errno;

use crate::tcp::close_reason::CloseReason;
use crate::tcp::effect::Effect;
use crate::tcp::limits::{IDLE_SCAN_INTERVAL, IDLE_SCANS_PER_TIMEOUT, LINGER};
use crate::tcp::pair::{Pair, Phase};
use crate::tcp::pair_table::PairTable;

/// Returns the effect on a pair whose timer has fired. There is none if the phase that armed it is
/// over: the current one has a timer of its own.
pub(crate) fn effect_of_timer<S, P>(pair: &Pair<S, P>, now: Tick) -> Effect {
    let settings = &pair.frontend.settings;
    let is_over = |limit: Duration| pair.last_activity.tick().after(limit) <= now;
    match pair.phase {
        Phase::AwaitingHeader if settings.proxy_in.is_some_and(is_over) => {
            Effect::Close(CloseReason::Header)
        }
        Phase::Connecting if is_over(settings.connect_timeout) => {
            Effect::ConnectFailed(Errno::TIMEDOUT.into())
        }
        Phase::Open if pair.is_broken() && is_over(LINGER) => Effect::Close(CloseReason::Reset),
        // The remaining side may have acknowledged everything.
        Phase::Open if pair.is_broken() => Effect::CheckEnd,
        _ => Effect::Wait,
    }
}

/// Scan for idle pairs.
#[derive(Debug)]
pub(crate) struct IdleScan(SlotScan);

impl Default for IdleScan {
    fn default() -> Self {
        Self(SlotScan::new(IDLE_SCAN_INTERVAL))
    }
}

impl IdleScan {
    /// Returns the time until the scan continues, if there are pairs.
    pub(crate) fn next_in<D: RelayDriver>(
        &self,
        table: &PairTable<D>,
        now: Tick,
    ) -> Option<Duration> {
        (!table.is_empty()).then(|| self.0.next_in(now))
    }

    /// Visits the slots that are due, often enough for the shortest timeout of all listeners, and
    /// appends the idle pairs to `idle`.
    pub(crate) fn visit<D: RelayDriver>(
        &mut self,
        table: &PairTable<D>,
        shortest_timeout: Duration,
        idle: &mut Vec<SlotKey>,
    ) {
        let now = table.now();
        let period = shortest_timeout / IDLE_SCANS_PER_TIMEOUT;
        for slot in self.0.due(now, table.slots(), period) {
            if let Some((key, pair)) = table.at(slot)
                && pair.phase == Phase::Open
                && pair
                    .last_activity
                    .tick()
                    .after(pair.frontend.settings.idle_timeout)
                    <= now
            {
                idle.push(key);
            }
        }
    }
}
