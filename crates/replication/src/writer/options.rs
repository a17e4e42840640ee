//! Settings and bounds of a writer.

use std::time::Duration;

use crate::command::{NAME_BYTES_MAX, VERSION_BYTES_MAX};
use crate::entry::{ENTRY_BYTES_MAX, EntryHead};

/// Longest time that an append waits for others to share its entry, while entries are in flight. It
/// is about the time that an entry takes to a majority of servers.
pub const GROUP_TIME: Duration = Duration::from_millis(1);

/// Bytes from which an entry takes no more appends: a larger one costs its readers latency and
/// saves nothing.
pub const GROUP_BYTES_MAX: usize = 256 << 10;

/// Most entries in flight: 16 MiB fill any network between nodes and the engine.
pub const IN_FLIGHT_MAX: usize = 64;

/// Time after which an entry that was neither acknowledged nor read back is sent again. It is far
/// above what a loaded engine takes, and adds little to an election of 4 to 9 s.
pub const RESEND_AFTER: Duration = Duration::from_secs(1);

/// Time after which an entry is sent again that was acknowledged and not read back. The reader is
/// far behind, or the engine has lost the entry.
pub const RESEND_STORED_AFTER: Duration = Duration::from_secs(30);

/// Time that appends wait for a connection before they are refused, and when they may be tried
/// again: a client of the engine finds another server in less.
pub const UNAVAILABLE_AFTER: Duration = Duration::from_secs(2);

/// Time within which every append is answered. Elections take 4 to 9 s.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Pause after the engine has refused an entry: it has no leader, for instance.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_millis(250);

/// Bytes that an append counts for beside its commands: its token, and its place in a group.
pub(super) const APPEND_BYTES: usize = 128;

/// Bytes that an entry must be able to have: the largest `NodeUp`, many times over.
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
    /// Bytes of appends that may wait or be in flight, unless set otherwise: four times what may be
    /// in flight.
    pub const WAITING_BYTES_MAX: usize = 64 << 20;

    /// Makes the settings of a node by its name and version. `entry_bytes_max` is the largest
    /// message that the engine takes. `None` if the name or the version is longer than it may be,
    /// or the engine takes less than 4 KiB.
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

    /// Returns the bytes of the largest entry, if the engine takes messages of so many. The
    /// `NodeUp` of a node must always fit.
    pub(super) fn bounded(entry_bytes_max: usize) -> usize {
        entry_bytes_max.clamp(ENTRY_BYTES_MIN, ENTRY_BYTES_MAX)
    }

    /// Sets the bytes of appends that may wait or be in flight.
    #[must_use]
    pub const fn waiting_bytes_max(mut self, bytes: usize) -> Self {
        self.waiting_bytes_max = bytes;
        self
    }

    /// Returns the bytes from which an entry takes no more appends.
    pub(super) fn group_bytes_max(&self) -> usize {
        GROUP_BYTES_MAX.min(self.entry_bytes_max)
    }
}
