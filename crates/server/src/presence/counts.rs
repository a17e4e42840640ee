//! What the presence thread counts, for metrics.

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
