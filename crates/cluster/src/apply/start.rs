//! The start: the position from which a node reads the log.

use std::error::Error;
use std::fmt;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartError {
    /// Entries after the position of the graph are no longer in the log, so the node must start
    /// from a snapshot.
    Trimmed {
        /// Position of the graph.
        stored: u64,
        /// Oldest entry of the log.
        first: u64,
    },
    /// A stored position cannot be decoded.
    Table {
        /// The place.
        sequence: u64,
        /// Error of decoding it.
        error: DecodeError,
    },
    /// A stored position has the state of another one.
    Misplaced {
        /// The place.
        sequence: u64,
    },
    /// The position to begin from is after that of the graph.
    TooLate {
        /// Position to begin from.
        from: u64,
        /// Position of the graph.
        stored: u64,
    },
    /// The graph follows no log.
    NotInLog,
    /// The epoch of the graph's log differs from that of event ids.
    OtherEpoch,
    /// The router has numbered events by itself.
    Numbered(FollowError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trimmed { stored, first } => write!(
                f,
                "the graph of this node has the log up to entry {stored}, but the log now begins \
                 with entry {first}; the node must start from a snapshot"
            ),
            Self::Table { sequence, error } => write!(
                f,
                "the log position {sequence} that is stored with the graph cannot be read: \
                 {error}; remove the data directory, so that the node starts from a snapshot"
            ),
            Self::Misplaced { sequence } => write!(
                f,
                "the log position {sequence} that is stored with the graph has the state of \
                 another position; remove the data directory, so that the node starts from a \
                 snapshot"
            ),
            Self::TooLate { from, stored } => write!(
                f,
                "the log would be read from entry {from} on, but the graph has it only up to \
                 entry {stored}; this is a bug in Encke"
            ),
            Self::NotInLog => f.write_str(
                "the graph of this node was not opened for a cluster; this is a bug in Encke",
            ),
            Self::OtherEpoch => f.write_str(
                "the graph of this node follows another log than its event ids; this is a bug in \
                 Encke",
            ),
            Self::Numbered(error) => error.fmt(f),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Table { error, .. } => Some(error),
            _ => None,
        }
    }
}
