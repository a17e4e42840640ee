//! State that all nodes of a cluster keep in common, beside events and the graph: revocations,
//! bans, tickets and idempotency keys.
//!
//! It is a state machine of the log: rows that each piece changes by the log's time alone, stored
//! with the graph and in its snapshots. Owns how a piece changes the rows, and how it takes effect
//! here. Must never block: it is called by the thread that applies the log.

/// Pieces of shared state as bytes.
pub(crate) mod piece;
/// Tables of rows.
pub(crate) mod tables;
/// Idempotency keys of all nodes.
pub(crate) mod keys;
/// Presence over nodes.
pub(crate) mod presence_pieces;
/// Effects on identities.
pub(crate) mod identities;
/// Revocations and bans of a server alone.
pub(crate) mod own;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::{Id, RowChanges, Rows};
use parking_lot::Mutex;
use presence::{Cause, NodeName};
use replication::shared::{Gone, Piece, SharedRows, SharedSink, UnreadablePiece};
use replication::{Append, Applied, DecodeError};
use server::Handle;

use crate::error::IdentityError;
use crate::idempotency::Stored;
use crate::limits::{Limits, SHARED_FAILURES_MAX};
use crate::time::now;
use keys::Claim;
use piece::{Digest, IdentityPiece, SharedPiece};

/// Shared state of one node: what the log hands it, and what the control API asks of it.
pub struct SharedState {
    server: Handle,
    rows: Mutex<SharedRows>,
    /// Number of the incarnation of this run, from when it has written a piece.
    own: AtomicU64,
    /// Pieces of this node that did not take effect here, by position. Taken by their requests.
    failures: Mutex<BTreeMap<u64, IdentityError>>,
}

impl SharedState {
    /// Makes the shared state of a server that is a node, of the rows that were stored with its
    /// graph. It is given to those who apply the log, and to the control API.
    ///
    /// # Errors
    ///
    /// When a row is not one that was stored.
    pub fn new(server: Handle, rows: &Rows) -> Result<Arc<Self>, DecodeError> {
        Self::within(&Limits::USUAL, server, rows)
    }

    pub(crate) fn within(
        limits: &Limits,
        server: Handle,
        rows: &Rows,
    ) -> Result<Arc<Self>, DecodeError> {
        let mut rows = SharedRows::load(&tables::of_cluster(limits), rows)?;
        tables::follow(&mut rows, server.router().epoch());
        restore(&server, &rows);
        Ok(Arc::new(Self {
            server,
            rows: Mutex::new(rows),
            own: AtomicU64::new(0),
            failures: Mutex::default(),
        }))
    }

    /// Lets the nodes know of each other's presence, where it is kept.
    pub(crate) fn join_presence(&self, log: &Arc<dyn Append>) {
        presence_pieces::join(log, &self.server);
    }

    /// Returns why a piece that this node appended alone did not take effect here.
    pub(crate) fn take_failure(&self, applied: &Applied) -> Option<IdentityError> {
        self.failures.lock().remove(&applied.first.number())
    }

    /// Returns the answer to a request with a key, if it is known.
    pub(crate) fn answer(&self, key: &Digest) -> Option<Stored> {
        keys::answer(&self.rows.lock(), key)
    }

    /// Returns the part of a request that counts, if it is known.
    pub(crate) fn claim(&self, key: Digest, part: u32) -> Option<Claim> {
        keys::claim(&self.rows.lock(), key, part)
    }

    /// Returns what all nodes know of identities.
    #[cfg(test)]
    pub(crate) fn known(&self) -> Vec<(u64, IdentityPiece)> {
        let mut all = Vec::new();
        tables::read(&self.rows.lock(), |node, piece| all.push((node, piece)));
        all
    }

    /// Applies a piece to the rows, and then to this server.
    fn apply(&self, identity: IdentityPiece, piece: &Piece<'_>) -> Result<(), IdentityError> {
        let node = piece.incarnation.number();
        // What all nodes have no room for takes effect on none.
        tables::write(&mut self.rows.lock(), &identity, node, piece.position)?;
        if let IdentityPiece::Hide { id, hidden } = &identity {
            self.tell_hidden(id, *hidden, piece);
        }
        identities::apply(&self.server, identity, node, piece.is_own, now())
    }

    /// Lets the backend know of an id that is not hidden and will be, or the other way round.
    fn tell_hidden(&self, id: &Id, hidden: bool, piece: &Piece<'_>) {
        let key = self.server.graph().find(id);
        if let Some((presence, key)) = self.server.presence().zip(key)
            && presence.online().is_hidden(key) != hidden
        {
            presence.hidden_told(cause_of(piece), id.clone(), hidden);
        }
    }
}

impl SharedSink for SharedState {
    fn advance(&self, seconds: u64) {
        self.rows.lock().advance(seconds);
    }

    fn take(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece> {
        let shared = read(&piece)?;
        if piece.is_own {
            self.own
                .store(piece.incarnation.number(), Ordering::Relaxed);
        }
        let identity = match shared {
            SharedPiece::Presence(presence) => {
                presence_pieces::apply(presence, &self.server, cause_of(&piece));
                return Ok(0);
            }
            SharedPiece::Key(key) => {
                return Ok(keys::take(&mut self.rows.lock(), key, piece.position));
            }
            SharedPiece::Identity(identity) => identity,
        };
        let Err(error) = self.apply(identity, &piece) else {
            return Ok(0);
        };
        tracing::warn!("a piece of the cluster's shared state has no effect here: {error}");
        if piece.is_own {
            let mut failures = self.failures.lock();
            failures.insert(piece.position.number(), error);
            if failures.len() > SHARED_FAILURES_MAX {
                failures.pop_first();
            }
        }
        Ok(0)
    }

    fn passed_over(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece> {
        Ok(match read(&piece)? {
            SharedPiece::Key(key) => keys::passed_over(&self.rows.lock(), &key, piece.position),
            SharedPiece::Identity(_) | SharedPiece::Presence(_) => 0,
        })
    }

    fn gone(&self, gone: Gone) {
        let number = gone.incarnation.number();
        tables::node_gone(&mut self.rows.lock(), number);
        self.server.tickets_of_node_gone(number, now());
        if let Some(presence) = self.server.presence() {
            let own = self.own.load(Ordering::Relaxed);
            let heir = gone.heir.map(|heir| Cause {
                node: NodeName(heir.number()),
                is_own: heir.number() == own,
                place: gone.position.number(),
            });
            presence.node_gone(NodeName(number), heir);
            if number == own {
                // It goes on as another one, which has told nothing yet.
                presence.tell_nodes_all();
            }
        }
    }

    fn has_changes(&self) -> bool {
        self.rows.lock().has_changes()
    }

    fn take_changes(&self) -> RowChanges {
        self.rows.lock().take_changes()
    }
}

/// Reads a piece that a node has written. One that cannot be read is never passed over: nodes that
/// can read it would have other rows, and apply other commands of its entry.
fn read(piece: &Piece<'_>) -> Result<SharedPiece, UnreadablePiece> {
    SharedPiece::read(piece.kind, piece.bytes).ok_or(UnreadablePiece {
        kind: piece.kind,
        position: piece.position,
    })
}

/// Returns the cause of what a piece says of presence: its node, at its place.
const fn cause_of(piece: &Piece<'_>) -> Cause {
    Cause {
        node: NodeName(piece.incarnation.number()),
        is_own: piece.is_own,
        place: piece.position.number(),
    }
}

/// Makes rows that were stored take effect on a server.
fn restore(server: &Handle, rows: &SharedRows) {
    let now = now();
    tables::read(rows, |node, piece| {
        if let Err(error) = identities::apply(server, piece, node, false, now) {
            tracing::warn!("a piece of stored state has no effect here: {error}");
        }
    });
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedState")
    }
}
