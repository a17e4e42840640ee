//! Settings of a log, and what it reports.

use std::fmt;
use std::io;
use std::time::Duration;

/// Minimum size of a segment in bytes, so that a small history is not made of many tiny files.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Maximum size of a segment in bytes: at the start, one is read at a time.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Minimum number of segments of a history, so that each removal takes only a small part of it.
const SEGMENTS_MIN: u64 = 32;

/// When events are synced, so that they survive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// At most this time after they were written.
    Interval(Duration),
    /// Before their publisher gets its receipt. Publishers that wait at the same time share a sync.
    Receipt,
}

/// Bounds of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes at which a segment ends, unless it has a single larger event.
    pub segment_bytes: u64,
    /// Total size of the segments in bytes. Beyond it the oldest is removed, even if its events are
    /// in memory.
    pub disk_bytes: u64,
    /// Maximum number of segments: each start begins a new one, however few events the last one
    /// has.
    pub segments: usize,
    /// Maximum size of the records that wait for the disk, in bytes. Events beyond it are not
    /// stored, which publishers and later readers are told.
    pub waiting_bytes: usize,
    /// Number of positions reserved at a time. More are reserved when half of them are left, and
    /// none while the disk fails.
    pub reserved_positions: u64,
}

impl Limits {
    /// Returns the bounds for a history of `bytes` in memory. Records on disk have the text of
    /// their subject, and are somewhat larger than in memory.
    pub const fn of_history(bytes: u64) -> Self {
        let segment_bytes = match bytes / SEGMENTS_MIN {
            bytes if bytes < SEGMENT_BYTES_MIN => SEGMENT_BYTES_MIN,
            bytes if bytes > SEGMENT_BYTES_MAX => SEGMENT_BYTES_MAX,
            bytes => bytes,
        };
        Self {
            segment_bytes,
            disk_bytes: bytes.saturating_mul(2).saturating_add(2 * segment_bytes),
            segments: 4096,
            // What a slow disk writes in two seconds.
            waiting_bytes: 64 << 20,
            // A server whose disk has failed can still give out half of them, which takes more than
            // an hour at a million events a second.
            reserved_positions: 1 << 32,
        }
    }
}

/// Facts about a run of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Epoch of the history if it has none yet: at most 32 bytes.
    pub new_epoch: String,
    /// Name of the machine's boot; empty if unknown.
    pub boot: String,
    /// Random number.
    pub random: u64,
}

/// Change of the disk's health.
#[derive(Debug)]
pub enum Health {
    /// Events are kept in memory only from now on.
    Failed(io::Error),
    /// Events are stored again.
    Recovered,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(
                f,
                "the history directory cannot be written: {error}; events are kept in memory only, \
                 and receipts say \"unstored\", until the disk works again"
            ),
            Self::Recovered => f.write_str(
                "the history directory can be written again; after a restart, clients that missed \
                 events of the time between are told to load their state anew",
            ),
        }
    }
}
