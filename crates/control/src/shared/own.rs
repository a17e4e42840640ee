//! Revocations, bans and hidden ids of a server alone, which a restart must not forget.
//!
//! The same rows as in a cluster, stored with the graph; the time is that of the server's clock. A
//! graph in memory keeps none.

use auth::UnixSeconds;
use graph::GraphError;
use parking_lot::Mutex;
use replication::shared::SharedRows;
use replication::{DecodeError, Position};
use server::Handle;
use tokio::sync::oneshot;

use super::piece::IdentityPiece;
use super::{identities, restore, tables};
use crate::limits::Limits;
use crate::problem::Problem;

/// Stored revocations, bans and hidden ids. Owned by the API.
#[derive(Debug)]
pub(crate) struct OwnState(Mutex<SharedRows>);

impl OwnState {
    /// Returns the state of a server of which nothing is stored.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(Mutex::new(SharedRows::new(&tables::of_one(limits))))
    }

    /// Takes over what was stored with the graph of a server, and makes it take effect. Sessions
    /// that were faster end.
    pub(crate) fn load(
        server: &Handle,
        now: UnixSeconds,
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let stored = server.router().graph().take_rows();
        let mut rows = SharedRows::load(&tables::of_one(limits), &stored)?;
        rows.advance(now.0);
        restore(server, &rows);
        tables::read(&rows, |_, piece| {
            if let IdentityPiece::Ban { id, .. } = piece {
                server.close(&server.router().sessions(&id));
            }
        });
        Ok(Self(Mutex::new(rows)))
    }

    /// Makes a piece take effect, and stores it. Returns when it is on disk.
    pub(crate) async fn share(
        &self,
        server: &Handle,
        piece: &IdentityPiece,
        now: UnixSeconds,
    ) -> Result<(), Problem> {
        let (answer, answered) = oneshot::channel();
        {
            let mut rows = self.0.lock();
            rows.advance(now.0);
            identities::apply(server, piece.clone(), 0, true, now)?;
            if let Err(error) = tables::write(&mut rows, piece, 0, Position::default()) {
                if let IdentityPiece::Hide { id, .. } = piece {
                    // There is no room, so it was not hidden before.
                    identities::hide(server, id, false)?;
                }
                return Err(error.into());
            }
            // The rows are locked, so that the disk gets changes in their order.
            let graph = server.router().graph();
            graph.set_rows(rows.take_changes(), |stored| {
                // The client may have gone; what it asked for is done all the same.
                let _ = answer.send(stored);
            });
        }
        let stored = answered.await.unwrap_or(Err(GraphError::Ended));
        stored.map_err(|error| {
            let sentence = format!("it holds until the next start, and is not stored: {error}");
            Problem::from(error).saying(sentence)
        })
    }

    /// Returns what is stored.
    #[cfg(test)]
    pub(crate) fn stored(&self) -> Vec<IdentityPiece> {
        let mut stored = Vec::new();
        tables::read(&self.0.lock(), |_, piece| stored.push(piece));
        stored
    }
}
