//! The time of day.

use std::time::SystemTime;

use auth::UnixSeconds;

/// Returns the time by the machine's clock; 0 for a time before 1970.
pub(crate) fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixSeconds(since.map_or(0, |since| since.as_secs()))
}
