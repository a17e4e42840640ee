//! What the presence thread counts, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of presence, as they are at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PresenceCounts {
    /// Edges that were told to the online subscribers of their ids.
    pub told: u64,
    /// Edges that were applied when very many ids came or went at once: sessions got snapshots.
    pub bulk: u64,
    /// Edges of ids that have more subscribers than are told.
    pub crowded: u64,
    /// Edges that were undone while they waited.
    pub undone: u64,
    /// Edges that wait to be told.
    pub waiting: u64,
    /// Ids whose last session has ended, and which are online until their delay is over.
    pub leaving: u64,
    /// In a cluster: edges that other nodes have to tell the backend.
    pub handover: u64,
}

/// The counts that are there now. Written by the presence thread.
#[derive(Debug, Default)]
pub(super) struct LiveCounts {
    told: AtomicU64,
    bulk: AtomicU64,
    crowded: AtomicU64,
    undone: AtomicU64,
    waiting: AtomicU64,
    leaving: AtomicU64,
    handover: AtomicU64,
}

/// What becomes of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Told,
    Bulk,
    Crowded,
}

impl LiveCounts {
    pub(super) fn count(&self, fate: Fate) {
        let counter = match fate {
            Fate::Told => &self.told,
            Fate::Bulk => &self.bulk,
            Fate::Crowded => &self.crowded,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how things are at the end of a tick.
    pub(super) fn note(&self, undone: u64, [waiting, leaving, handover]: [usize; 3]) {
        self.undone.store(undone, Ordering::Relaxed);
        for (gauge, value) in [
            (&self.waiting, waiting),
            (&self.leaving, leaving),
            (&self.handover, handover),
        ] {
            gauge.store(value as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> PresenceCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PresenceCounts {
            told: read(&self.told),
            bulk: read(&self.bulk),
            crowded: read(&self.crowded),
            undone: read(&self.undone),
            waiting: read(&self.waiting),
            leaving: read(&self.leaving),
            handover: read(&self.handover),
        }
    }
}
