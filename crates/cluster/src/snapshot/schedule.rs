//! The schedule of snapshots.

use crate::stream::LogState;

/// A snapshot is due when the log's limit divided by this was written since the last one.
const SHARE: u64 = 4;

/// Returns whether a snapshot is due. `newest` is the last entry of the newest one.
///
/// The decision is the same on all nodes, as it depends only on the log. Entries count with their
/// average size.
pub(super) fn is_due(state: &LogState, newest: u64) -> bool {
    state.bytes_max > 0 && bytes_after(state, newest) >= state.bytes_max / SHARE
}

/// Returns the approximate size of the log after entry `sequence`, in bytes.
fn bytes_after(state: &LogState, sequence: u64) -> u64 {
    let entries = (state.last + 1).saturating_sub(state.first);
    let after = state.last.saturating_sub(sequence).min(entries);
    match entries {
        0 => 0,
        _ => {
            let bytes = u128::from(state.bytes) * u128::from(after) / u128::from(entries);
            u64::try_from(bytes).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(first: u64, last: u64, bytes: u64) -> LogState {
        LogState {
            first,
            last,
            bytes,
            bytes_max: 1000,
            ..LogState::default()
        }
    }

    #[test]
    fn a_snapshot_is_due_when_a_quarter_of_the_log_was_written_since_the_last() {
        assert!(!is_due(&log(1, 0, 0), 0));
        assert!(!is_due(&log(1, 10, 249), 0));
        assert!(is_due(&log(1, 10, 250), 0));
        assert!(!is_due(&log(1, 10, 250), 1));
        // In a full log the share is that of its entries.
        assert!(!is_due(&log(1001, 2000, 1000), 1751));
        assert!(is_due(&log(1001, 2000, 1000), 1750));
    }

    #[test]
    fn a_snapshot_is_due_at_once_if_the_log_begins_after_the_last_one() {
        assert!(is_due(&log(1001, 2000, 300), 0));
        assert!(is_due(&log(1001, 2000, 300), 999));
    }

    #[test]
    fn a_log_without_a_limit_needs_no_snapshots() {
        let unlimited = LogState {
            bytes_max: 0,
            ..log(1, 1000, u64::MAX)
        };
        assert!(!is_due(&unlimited, 0));
    }
}
