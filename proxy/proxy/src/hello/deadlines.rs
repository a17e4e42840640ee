//! Stage 3: time limits. A lingering connection has a timer; silent ones are found by a scan over
//! all slots, which needs no memory per connection.

use std::time::Duration;

use reactor::{Driver, SlotKey, SlotScan, Tick};

use super::connection_table::ConnectionTable;
use super::limits::{IDLE_SCAN_INTERVAL, IDLE_SCANS_PER_TIMEOUT, LINGER};

/// Time limits of one worker's connections. Lives as long as the worker.
#[derive(Debug)]
pub(super) struct Deadlines {
    idle_timeout: Duration,
    scan: SlotScan,
    /// Connections whose timers have fired. Scratch space of a turn.
    due: Vec<SlotKey>,
}

impl Deadlines {
    /// Makes limits for connections that may be silent for `idle_timeout`.
    pub(super) const fn new(idle_timeout: Duration) -> Self {
        Self {
            idle_timeout,
            scan: SlotScan::new(IDLE_SCAN_INTERVAL),
            due: Vec::new(),
        }
    }

    /// Returns the time until a connection may be due.
    pub(super) fn next_in<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        now: Tick,
    ) -> Option<Duration> {
        let scan = (!table.is_empty()).then(|| self.scan.next_in(now));
        table.next_timer(now).into_iter().chain(scan).min()
    }

    /// Closes the connections whose deadlines have passed.
    pub(super) fn meet<D: Driver>(&mut self, table: &mut ConnectionTable<D>) {
        let now = table.now();
        table.expire(&mut self.due);
        for key in self.due.drain(..) {
            let Some(connection) = table.get(key) else {
                continue;
            };
            let until = connection.last_activity.after(LINGER);
            if until <= now {
                table.close(key);
            } else {
                table.arm_timer(key, until.since(now));
            }
        }
        let period = self.idle_timeout / IDLE_SCANS_PER_TIMEOUT;
        for slot in self.scan.due(now, table.slots(), period) {
            if let Some((key, connection)) = table.at(slot)
                && connection.last_activity.after(self.idle_timeout) <= now
            {
                table.close(key);
            }
        }
    }
}
