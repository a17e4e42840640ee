//! Settings and bounds of a writer.

use std::time::Duration;

use crate::command::{NAME_BYTES_MAX, VERSION_BYTES_MAX};
use crate::entry::{ENTRY_BYTES_MAX, EntryHead};

/// Maximum time that an append waits for others to share its entry while entries are in flight:
/// about as long as an entry takes to reach a majority of servers.
pub const GROUP_TIME: Duration = Duration::from_millis(1);

/// Size from which an entry accepts no more appends, in bytes: a larger one increases latency for
/// its readers and saves nothing.
pub const GROUP_BYTES_MAX: usize = 256 << 10;

/// Maximum number of entries in flight: 16 MiB fill any network between nodes and the engine.
pub const IN_FLIGHT_MAX: usize = 64;

/// Time after which an entry that was neither acknowledged nor read back is resent: far longer than
/// a loaded engine takes, and short compared to an election of 4 to 9 s.
pub const RESEND_AFTER: Duration = Duration::from_secs(1);

/// Time after which an entry that was acknowledged but not read back is resent. The reader is far
/// behind, or the engine has lost the entry.
pub const RESEND_STORED_AFTER: Duration = Duration::from_secs(30);

/// Time that appends wait for a connection before they are refused, and after which they may be
/// tried again. A client of the engine finds another server in less time.
pub const UNAVAILABLE_AFTER: Duration = Duration::from_secs(2);

/// Time within which every append is answered. Elections take 4 to 9 s.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Pause after the engine has refused an entry, for example because it has no leader.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_millis(250);

/// Memory that an append takes besides its commands, in bytes.
pub(super) const APPEND_BYTES: usize = 128;

/// Smallest limit for the size of an entry, in bytes: the largest `NodeUp` fits many times.
const ENTRY_BYTES_MIN: usize = 4096;

const _: () = assert!(EntryHead::BYTES + NAME_BYTES_MAX + VERSION_BYTES_MAX + 64 < ENTRY_BYTES_MIN);

/// Settings of a writer.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    pub(super) name: Box<str>,
    pub(super) version: Box<str>,
    pub(super) entry_bytes_max: usize,
    pub(super) waiting_bytes_max: usize,
}

impl WriterOptions {
    /// Default of the size of appends that may wait or be in flight, in bytes: four times what may
    /// be in flight.
    pub const WAITING_BYTES_MAX: usize = 64 << 20;

    /// Creates the settings of a node from its name and version. `entry_bytes_max` is the largest
    /// message that the engine accepts, in bytes. `None` if the name is empty, the name or the
    /// version is too long, or the engine accepts less than 4 KiB.
    pub fn new(name: &str, version: &str, entry_bytes_max: usize) -> Option<Self> {
        let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len())
            && version.len() <= VERSION_BYTES_MAX
            && entry_bytes_max >= ENTRY_BYTES_MIN;
        is_valid.then(|| Self {
            name: name.into(),
            version: version.into(),
            entry_bytes_max: Self::bounded(entry_bytes_max),
            waiting_bytes_max: Self::WAITING_BYTES_MAX,
        })
    }

    /// Returns the maximum size of an entry for an engine that accepts messages of this size. A
    /// `NodeUp` always fits.
    pub(super) fn bounded(entry_bytes_max: usize) -> usize {
        entry_bytes_max.clamp(ENTRY_BYTES_MIN, ENTRY_BYTES_MAX)
    }

    /// Sets the maximum size of appends that wait or are in flight, in bytes.
    #[must_use]
    pub const fn waiting_bytes_max(mut self, bytes: usize) -> Self {
        self.waiting_bytes_max = bytes;
        self
    }

    /// Returns the size from which an entry accepts no more appends, in bytes.
    pub(super) fn group_bytes_max(&self) -> usize {
        GROUP_BYTES_MAX.min(self.entry_bytes_max)
    }
}
