//! Shared state: state besides events and the graph that is the same on all nodes.
//!
//! Owns the list of its kinds. The log carries the bytes without interpreting them; only the
//! `SharedSink` does.

/// The state, as rows.
mod rows;

use std::fmt::Debug;

use bytes::Bytes;
use graph::RowChanges;

use crate::incarnation::Incarnation;
use crate::position::Position;
pub use rows::{FOR_EVER, Full, Overflow, Row, SharedRows, TableLimits};

/// Revocation of a token, a session or an id.
pub const REVOCATION: u8 = 1;

/// Ban of an id, or its end.
pub const BAN: u8 = 2;

/// Creation or use of a ticket.
pub const TICKET: u8 = 3;

/// Idempotency key and its answer.
pub const IDEMPOTENCY_KEY: u8 = 4;

/// Begin or end of a session of an id.
pub const PRESENCE: u8 = 5;

/// Begin or end of the hiding of an id.
pub const HIDDEN_ID: u8 = 6;

/// Returns the name of a kind, for logs; `None` for one that this version does not know.
pub const fn name(kind: u8) -> Option<&'static str> {
    match kind {
        REVOCATION => Some("revocation"),
        BAN => Some("ban"),
        TICKET => Some("ticket"),
        IDEMPOTENCY_KEY => Some("idempotency key"),
        PRESENCE => Some("presence"),
        HIDDEN_ID => Some("hidden id"),
        _ => None,
    }
}

/// Piece of shared state that a node has read.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Position of the piece.
    pub position: Position,
    /// Writer of its entry.
    pub incarnation: Incarnation,
    /// Whether the current incarnation of this node wrote it.
    pub is_own: bool,
    /// Kind of the state.
    pub kind: u8,
    /// Content.
    pub bytes: &'a Bytes,
}

/// Error: a piece of shared state was written by a newer version, and this one cannot read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the shared state of kind {kind} ({}) at {position} of the cluster's log cannot be read by \
     this version of Encke; update this node to the newest version that runs in the cluster",
    name(*.kind).unwrap_or("unknown")
)]
pub struct UnreadablePiece {
    /// Kind of the state.
    pub kind: u8,
    /// Position of the piece.
    pub position: Position,
}

/// End of an incarnation that a node has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// Incarnation that ended.
    pub incarnation: Incarnation,
    /// Position of the command that ended it.
    pub position: Position,
    /// Oldest remaining incarnation, which completes the unfinished work of the one that ended. The
    /// same on all nodes.
    pub heir: Option<Incarnation>,
}

/// Keeper of the shared state of a node: a state machine of the log. Called by the thread that
/// applies entries, in the order of the log. Must not block.
///
/// Its state is stored with the graph, in one transaction with the position in the log. When a node
/// starts, it may read entries again that are in the state already: those are not
/// [taken](Self::take) twice.
pub trait SharedSink: Debug + Send + Sync {
    /// Records the time of an entry, in seconds since 1970, before its pieces. It comes from the
    /// clock of the engine's leader, so it may be slightly earlier than that of the previous entry.
    fn advance(&self, seconds: u64);

    /// Takes a piece of an entry that counts. Returns the number of commands directly after it in
    /// its entry that must not be applied, as an earlier entry had them: 0 unless the piece is an
    /// idempotency key that is known already. Their results are
    /// [`None`](crate::CommandResult::None), and their positions stay unused.
    ///
    /// # Errors
    ///
    /// When this version cannot read the piece. The node must stop applying entries, as its state
    /// would differ from that of newer nodes.
    fn take(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece>;

    /// Returns the same number as [`take`](Self::take) did, for a piece that is in the state
    /// already. Called for an entry that is read again to refill the history.
    ///
    /// # Errors
    ///
    /// Those of [`take`](Self::take).
    fn passed_over(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece>;

    /// Records that an incarnation has ended, and with it the sessions of its node.
    fn gone(&self, gone: Gone);

    /// Returns whether there are changes that must be stored without waiting for others.
    fn has_changes(&self) -> bool;

    /// Takes the changes since the last call, to be stored with the position after the entry.
    fn take_changes(&self) -> RowChanges;
}
