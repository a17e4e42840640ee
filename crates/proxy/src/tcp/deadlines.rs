//! Time limits.
//!
//! A pair has a timer only in phases that must not last: while its header, its backend or a last
//! acknowledgement is awaited. Idle pairs are found by a scan over all slots, which takes no memory
//! for each.

use std::time::Duration;

use reactor::{RelayDriver, SlotKey, SlotScan, Tick};

use crate::tcp::close::CloseReason;
use crate::tcp::limits::{IDLE_SCAN_INTERVAL, IDLE_SCANS_PER_TIMEOUT, LINGER};
use crate::tcp::pair::{Pair, Phase};
use crate::tcp::pair_table::PairTable;

/// What a timer that fired means for its pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Nothing: the phase that armed it has passed, and the present one has a timer of its own.
    Nothing,
    /// The attempt to connect has taken too long.
    Connect,
    /// Look again whether the remaining side has everything.
    CheckEnd,
    /// Close the pair.
    Close(CloseReason),
}

impl Expired {
    /// Judges a pair whose timer fired.
    pub(crate) fn of<S, P>(pair: &Pair<S, P>, now: Tick) -> Self {
        let settings = &pair.frontend.settings;
        let is_over = |limit: Duration| pair.last_activity.tick().after(limit) <= now;
        match pair.phase {
            Phase::AwaitingHeader if settings.proxy_in.is_some_and(is_over) => {
                Self::Close(CloseReason::Header)
            }
            Phase::Connecting if is_over(settings.connect_timeout) => Self::Connect,
            Phase::Open if pair.is_broken() && is_over(LINGER) => Self::Close(CloseReason::Reset),
            Phase::Open if pair.is_broken() => Self::CheckEnd,
            _ => Self::Nothing,
        }
    }
}

/// The scan that finds idle pairs.
#[derive(Debug)]
pub(crate) struct IdleScan(SlotScan);

impl Default for IdleScan {
    fn default() -> Self {
        Self(SlotScan::new(IDLE_SCAN_INTERVAL))
    }
}

impl IdleScan {
    /// Time until the scan goes on, if there are pairs.
    pub(crate) fn next_in<D: RelayDriver>(
        &self,
        table: &PairTable<D>,
        now: Tick,
    ) -> Option<Duration> {
        (!table.is_empty()).then(|| self.0.next_in(now))
    }

    /// Visits some slots, often enough for the shortest timeout of all listeners, and appends the
    /// idle pairs there to `idle`.
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
