//! Kinds of shared state that nodes keep in common, beside events and the graph.
//!
//! Owns the one table of them. What the bytes mean is the business of the part that keeps the
//! state; the log carries them.

/// The state itself, in rows.
mod rows;

use std::error::Error;
use std::fmt::{self, Debug};

use bytes::Bytes;
use graph::RowChanges;

use crate::incarnation::Incarnation;
use crate::place::Position;
pub use rows::{FOR_EVER, Full, Overflow, Row, SharedRows, TableLimits};

/// A token, a session or an id that may no longer be used.
pub const REVOCATION: u8 = 1;

/// An id that is banned, or is no longer.
pub const BAN: u8 = 2;

/// A ticket that was made or used.
pub const TICKET: u8 = 3;

/// An idempotency key and its answer.
pub const IDEMPOTENCY_KEY: u8 = 4;

/// A session of an id that began or ended.
pub const PRESENCE: u8 = 5;

/// An id that hides, or shows itself again.
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
    /// Its position.
    pub position: Position,
    /// The writer of its entry.
    pub incarnation: Incarnation,
    /// Whether this run of this node wrote it.
    pub is_own: bool,
    /// What it is.
    pub kind: u8,
    /// Its content.
    pub bytes: &'a Bytes,
}

/// Piece of shared state that this version cannot read: a newer one has written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadablePiece {
    /// What it is.
    pub kind: u8,
    /// Its position.
    pub position: Position,
}

impl fmt::Display for UnreadablePiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, position } = self;
        let name = name(*kind).unwrap_or("unknown");
        write!(
            f,
            "the shared state of kind {kind} ({name}) at {position} of the cluster's log cannot be \
             read by this version of Encke; update this node to the newest version that runs in \
             the cluster"
        )
    }
}

impl Error for UnreadablePiece {}

/// End of an incarnation that a node has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// The incarnation.
    pub incarnation: Incarnation,
    /// Position of the command that ended it.
    pub position: Position,
    /// The oldest incarnation that is left, which does what the one that is gone has left undone.
    /// The same on all nodes.
    pub heir: Option<Incarnation>,
}

/// Keeper of the shared state of a node: a state machine of the log. Called by the thread that
/// applies entries, in the order of the log. It must not block.
///
/// What it keeps is stored with the graph, in one transaction with the place in the log. A node
/// that starts reads entries again that its state has: those are not [taken](Self::take) twice.
pub trait SharedSink: Debug + Send + Sync {
    /// Notes the time of an entry, in seconds since 1970, before its pieces. The clock of the
    /// engine's leader gives it, so it may be a little less than that of an earlier entry.
    fn advance(&self, seconds: u64);

    /// Takes a piece of an entry that counts. Returns how many of the commands right after it in
    /// its entry must not be applied, because an earlier entry has done the same: 0, unless the
    /// piece is an idempotency key that is known already. Their results are
    /// [`None`](crate::CommandResult::None), and their positions stay unused.
    ///
    /// # Errors
    ///
    /// When this version cannot read the piece. The node must apply nothing any more: others can
    /// read it, and would have another state.
    fn take(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece>;

    /// Returns what [`take`](Self::take) returned for a piece that the state has. The entry is read
    /// again to fill the history.
    ///
    /// # Errors
    ///
    /// Those of [`take`](Self::take).
    fn passed_over(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece>;

    /// Notes that an incarnation has ended, and the sessions of its node with it.
    fn gone(&self, gone: Gone);

    /// Returns whether there is something to store that is not to wait for other changes.
    fn has_changes(&self) -> bool;

    /// Takes what has changed since the last time, to be stored with the place after the entry.
    fn take_changes(&self) -> RowChanges;
}
