//! Fixed bounds that tests and simulations make smaller, each with its reason.

use std::time::Duration;

/// Bounds of a graph. Handed to its parts when it is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Additions kept of one group of subscribers: 16 KiB, searched in about a microsecond. All
    /// groups together keep a million.
    pub(crate) group_additions_max: usize,
    /// Most changed subscribers recorded at a time: a second of changes of a busy server. Beyond
    /// it, all count as changed.
    pub(crate) changed_max: usize,
    /// Number of journalled edges at which a sweep begins, unless the graph is large. Reading that
    /// many at start takes some hundredths of a second.
    pub(crate) pending_min: usize,
    /// Minimum number of blocks rewritten with a commit during a sweep: a quarter of a megabyte.
    pub(crate) blocks_per_commit_min: usize,
    /// Maximum size of a block: together with its row, 16 bytes, it fills one page of redb.
    pub(crate) block_bytes_max: usize,
    /// Maximum number of earlier positions in a log; the oldest are dropped.
    pub(crate) checkpoints_max: u64,
    /// Maximum number of edges of a log that wait for the disk, some dozens of megabytes. Beyond it
    /// the log is not applied, and the node reports that it falls behind.
    pub(crate) edges_waiting_max: usize,
    /// Time that changes of a log wait for others to be written with them. Changes lost in a crash
    /// are read from the log again, so they may wait, and with one sync for each entry the disk
    /// would limit the rate of the log.
    pub(crate) commit_interval: Duration,
    /// Number of edges of a log that are written at once, without waiting for others.
    pub(crate) edges_per_commit: usize,
}

impl Limits {
    pub(crate) const USUAL: Self = Self {
        group_additions_max: 1024,
        changed_max: 65_536,
        pending_min: 65_536,
        blocks_per_commit_min: 64,
        block_bytes_max: 4096 - 16,
        checkpoints_max: 32,
        edges_waiting_max: 1 << 20,
        commit_interval: Duration::from_millis(100),
        edges_per_commit: 65_536,
    };
}
