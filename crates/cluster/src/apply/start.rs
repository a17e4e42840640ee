//! The start: the position from which a node reads the log.

use bytes::Bytes;
use graph::LogPlaces;
use replication::{Checkpoint, DecodeError};
use router::FollowError;

/// Share of the oldest entries of a full log that a start avoids, as they may be removed before
/// they are read.
const SPARED_SHARE: u64 = 16;

/// Returns the position after which a node reads the log. `places` are the positions stored with
/// its graph, `first` is the oldest entry of the log. This is the earliest position after which all
/// entries are there and will not be removed soon, so that the history is refilled with the events
/// before the graph's position.
///
/// # Errors
///
/// [`StartError::Trimmed`] if the log no longer has the entry after the graph's position;
/// [`StartError::Table`] if a stored position cannot be decoded.
pub fn begin_from(places: &LogPlaces, first: u64) -> Result<Checkpoint, StartError> {
    let stored = places.last.sequence;
    let is_from = |place: &graph::Checkpoint, entry: u64| {
        place.sequence < u64::MAX && entry <= place.sequence + 1
    };
    if !is_from(&places.last, first) {
        return Err(StartError::Trimmed { stored, first });
    }
    let spared = match first {
        0 | 1 => 0,
        _ => (stored + 1 - first) / SPARED_SHARE,
    };
    let mut earlier = places.earlier.iter();
    let place = earlier
        .find(|place| is_from(place, first + spared))
        .unwrap_or(&places.last);
    if place.sequence == 0 {
        return Ok(Checkpoint::default());
    }
    let bytes = Bytes::copy_from_slice(&place.table);
    match Checkpoint::decode(&bytes) {
        Ok(checkpoint) if checkpoint.read.number() == place.sequence => Ok(checkpoint),
        Ok(_) => Err(StartError::Misplaced {
            sequence: place.sequence,
        }),
        Err(error) => Err(StartError::Table {
            sequence: place.sequence,
            error,
        }),
    }
}

/// Reason why a node cannot continue in the log with its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Entries after the position of the graph are no longer in the log, so the node must start
    /// from a snapshot.
    #[error(
        "the graph of this node has the log up to entry {stored}, but the log now begins with \
         entry {first}; the node must start from a snapshot"
    )]
    Trimmed {
        /// Position of the graph.
        stored: u64,
        /// Oldest entry of the log.
        first: u64,
    },
    /// A stored position cannot be decoded.
    #[error(
        "the log position {sequence} that is stored with the graph cannot be read: {error}; remove \
         the data directory, so that the node starts from a snapshot"
    )]
    Table {
        /// The position.
        sequence: u64,
        /// Error of decoding it.
        #[source]
        error: DecodeError,
    },
    /// A stored position has the state of another one.
    #[error(
        "the log position {sequence} that is stored with the graph has the state of another \
         position; remove the data directory, so that the node starts from a snapshot"
    )]
    Misplaced {
        /// The position.
        sequence: u64,
    },
    /// The position to begin from is after that of the graph.
    #[error(
        "the log would be read from entry {from} on, but the graph has it only up to entry \
         {stored}; this is a bug in Encke"
    )]
    TooLate {
        /// Position to begin from.
        from: u64,
        /// Position of the graph.
        stored: u64,
    },
    /// The graph follows no log.
    #[error("the graph of this node was not opened for a cluster; this is a bug in Encke")]
    NotInLog,
    /// The epoch of the graph's log differs from that of event ids.
    #[error(
        "the graph of this node follows another log than its event ids; this is a bug in Encke"
    )]
    OtherEpoch,
    /// The router has numbered events by itself.
    #[error("{0}")]
    Numbered(FollowError),
}
