//! Positions in a replicated log, and how far a graph has stored them.

use crate::error::GraphError;

/// Position in a replicated log: an entry, and the table of writers up to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Sequence number of the entry in the log.
    pub sequence: u64,
    /// Table of the writers after this entry, encoded by the crate that reads the log.
    pub table: Box<[u8]>,
}

/// Positions in a replicated log that are stored with a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPlaces {
    /// Name of the log.
    pub epoch: Box<str>,
    /// Last entry whose changes, with those of all entries before, are in the graph.
    pub last: Checkpoint,
    /// Earlier entries, ascending, from which a history can be refilled.
    pub earlier: Vec<Checkpoint>,
}

impl LogPlaces {
    /// Returns the position before the first entry of a log.
    pub(crate) fn before_all(epoch: &str) -> Self {
        Self {
            epoch: epoch.into(),
            ..Self::default()
        }
    }
}

/// Progress of a graph on disk that follows a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPlace {
    /// Sequence number of the last entry that is on disk.
    pub sequence: u64,
    /// Number of changed edges that are in memory but not on disk.
    pub edges_waiting: usize,
    /// Reason why the last write failed, until one succeeds. Writes are retried every second.
    pub failure: Option<GraphError>,
}
