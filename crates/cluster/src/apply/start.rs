//! Where a node begins to read the log.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use graph::LogPlaces;
use replication::{Checkpoint, DecodeError};
use router::FollowError;

/// A start keeps away from so much of the oldest part of a log that loses entries: they may be gone
/// before they are read.
const SPARED_SHARE: u64 = 16;

/// Returns the place after which a node whose graph has stored `places` reads the log, whose oldest
/// entry is `first`: the earliest place from which all is there and stays there for now, so that
/// the history is filled with what came before the graph's place.
///
/// # Errors
///
/// [`StartError::Trimmed`] if the log does not go on where the graph is; [`StartError::Table`] if a
/// place cannot be read.
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

/// Reason why a node cannot go on in the log with its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartError {
    /// Entries after the place of the graph are no longer in the log: the node must start from a
    /// snapshot.
    Trimmed {
        /// The place of the graph.
        stored: u64,
        /// The oldest entry of the log.
        first: u64,
    },
    /// A stored place cannot be read.
    Table {
        /// The place.
        sequence: u64,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// A stored place has the state of another one.
    Misplaced {
        /// The place.
        sequence: u64,
    },
    /// The place to begin from is after that of the graph.
    TooLate {
        /// The place to begin from.
        from: u64,
        /// The place of the graph.
        stored: u64,
    },
    /// The graph follows no log.
    NotInLog,
    /// The graph follows another log than the one that names event ids.
    OtherEpoch,
    /// The router has numbered events itself.
    Numbered(FollowError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trimmed { stored, first } => write!(
                f,
                "the graph of this node has the log up to entry {stored}, but the log begins with \
                 entry {first} now; the node must start from a snapshot"
            ),
            Self::Table { sequence, error } => write!(
                f,
                "the place {sequence} in the log that is stored with the graph cannot be read: \
                 {error}; remove the data directory, so that the node starts from a snapshot"
            ),
            Self::Misplaced { sequence } => write!(
                f,
                "the place {sequence} in the log that is stored with the graph has the state of \
                 another one; remove the data directory, so that the node starts from a snapshot"
            ),
            Self::TooLate { from, stored } => write!(
                f,
                "the log would be read from entry {from} on, but the graph has it only up to \
                 entry {stored}; this is a defect of Encke"
            ),
            Self::NotInLog => f.write_str(
                "the graph of this node is not opened for a cluster; this is a defect of Encke",
            ),
            Self::OtherEpoch => f.write_str(
                "the graph of this node follows another log than its event ids; this is a defect \
                 of Encke",
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
