//! The schedule of positions in the log: when one is stored with the graph, and when it is kept for
//! the history.

use graph::{Change, ID_BYTES_MAX};
use replication::EventRecord;

/// Number of entries after which a position is stored although nothing has changed. At most so many
/// are read again after a crash.
const ENTRIES_MAX: u64 = 1000;

/// A position is kept when this share of the history's size was published since the last one. The
/// graph keeps 32, so the oldest is from before all events in the history.
const KEPT_SHARE: u64 = 16;

/// A position is also kept when this many times as much was written to the log in all, so that the
/// amount read at start is bounded.
const KEPT_LOG_FACTOR: u64 = 4;

/// A position is also kept when this share of the log's limit was written, so that a full log has a
/// kept position near its oldest entry, however large the history is.
const KEPT_LOG_SHARE: u64 = 16;

/// Bytes written to the log after which a node without a history keeps a position. At start a node
/// compares the log from an earlier position on with what it had applied.
const KEPT_WITHOUT_HISTORY: u64 = 1 << 20;

/// Approximate size of an event in the log without its content, in bytes.
const EVENT_OVERHEAD_BYTES: u64 = 24;

/// Schedule of positions. Owned by the applier.
#[derive(Debug)]
pub(super) struct Schedule {
    history_bytes: u64,
    /// Limit of the log, in bytes; 0 for none.
    log_bytes_max: u64,
    /// Number of entries since a position was stored.
    entries: u64,
    /// Bytes of events, and of all commands, since a position was kept.
    event_bytes: u64,
    log_bytes: u64,
    has_kept: bool,
}

impl Schedule {
    /// Creates the schedule of a node. `has_kept` tells whether the graph has a kept position.
    pub(super) const fn new(history_bytes: usize, log_bytes_max: u64, has_kept: bool) -> Self {
        Self {
            history_bytes: history_bytes as u64,
            log_bytes_max,
            entries: 0,
            event_bytes: 0,
            log_bytes: 0,
            has_kept,
        }
    }

    /// Counts an event.
    pub(super) fn event(&mut self, record: &EventRecord) {
        let bytes = EVENT_OVERHEAD_BYTES + (record.event_type.len() + record.payload.len()) as u64;
        self.event_bytes += bytes;
        self.log_bytes += bytes;
    }

    /// Counts a change.
    pub(super) fn change(&mut self, change: &Change) {
        self.log_bytes += match change {
            Change::Replace { subjects, .. } => subjects.len() * size_of::<u64>(),
            _ => ID_BYTES_MAX / 4,
        } as u64;
    }

    /// Counts an entry, after which there are `changes` changes without a position. Returns whether
    /// its position must be kept; `None` if it need not even be stored.
    pub(super) fn due(&mut self, changes: usize) -> Option<bool> {
        self.entries += 1;
        self.log_bytes += EVENT_OVERHEAD_BYTES;
        let share = self.history_bytes / KEPT_SHARE;
        let mut log_share = match share {
            0 => KEPT_WITHOUT_HISTORY,
            share => share.saturating_mul(KEPT_LOG_FACTOR),
        };
        if self.log_bytes_max > 0 {
            log_share = log_share.min(self.log_bytes_max / KEPT_LOG_SHARE);
        }
        let fills_history = share > 0 && self.event_bytes >= share;
        let is_kept = !self.has_kept || fills_history || self.log_bytes >= log_share;
        if !is_kept && changes == 0 && self.entries < ENTRIES_MAX {
            return None;
        }
        self.entries = 0;
        if is_kept {
            (self.event_bytes, self.log_bytes, self.has_kept) = (0, 0, true);
        }
        Some(is_kept)
    }
}

#[cfg(test)]
mod tests {
    use graph::Id;

    use super::*;

    #[test]
    fn a_log_smaller_than_the_history_has_evenly_spread_kept_positions() {
        // An entry has 24 bytes and the text of an id, so the log holds 100 or more.
        let change = Change::Subscribe {
            subscriber: Id::Integer(1),
            subject: Id::Integer(2),
        };
        let entry = EVENT_OVERHEAD_BYTES + ID_BYTES_MAX as u64 / 4;
        let kept = |log_bytes_max| {
            let mut schedule = Schedule::new(1 << 30, log_bytes_max, true);
            let due = |_| {
                schedule.change(&change);
                schedule.due(1) == Some(true)
            };
            (0..100).map(due).filter(|&is_kept| is_kept).count()
        };
        assert_eq!(kept(100 * entry), 14, "every seventh entry");
        assert_eq!(kept(0), 0, "a log without a limit is never trimmed");
    }

    /// A regression: such a node did not notice that a log had lost its end and grown beyond it
    /// again.
    #[test]
    fn a_node_without_a_history_keeps_positions_to_compare_the_log() {
        let mut schedule = Schedule::new(0, 0, false);
        assert_eq!(schedule.due(1), Some(true), "the first one");
        let entries = 10 * KEPT_WITHOUT_HISTORY / EVENT_OVERHEAD_BYTES;
        let kept = (0..entries).filter(|_| schedule.due(0) == Some(true));
        let kept = kept.count();
        assert!((9..=10).contains(&kept), "{kept}");
    }
}
