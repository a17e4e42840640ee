//! Revocations, bans and hidden ids of a server alone, which a restart must not forget.
//!
//! The same rows as in a cluster, stored with the graph; the time is that of the server's clock. A
//! graph in memory keeps none.

use auth::UnixSeconds;
use graph::{GraphError, Id};
use parking_lot::Mutex;
use replication::shared::SharedRows;
use replication::{DecodeError, Position};
use tokio::sync::oneshot;

use super::identities::hide;
use super::piece::IdentityPiece;
use super::{restore, tables};
use crate::backend::Backend;
use crate::problem::Problem;

/// Stored revocations, bans and hidden ids. Owned by the API.
#[derive(Debug)]
pub(crate) struct OwnState(Mutex<SharedRows>);

impl Default for OwnState {
    fn default() -> Self {
        Self(Mutex::new(SharedRows::new(&tables::OF_ONE)))
    }
}

impl OwnState {
    /// Takes over what was stored with the graph of a server, and makes it take effect. Sessions
    /// that were faster end.
    pub(crate) fn load<B: Backend>(backend: &B, now: UnixSeconds) -> Result<Self, DecodeError> {
        let stored = backend.router().graph().take_rows();
        let mut rows = SharedRows::load(&tables::OF_ONE, &stored)?;
        rows.advance(now.0);
        restore(backend, &rows);
        tables::read(&rows, |known| {
            if let tables::Known::Banned { id, .. } = known {
                backend.close(&backend.router().sessions(&id));
            }
        });
        Ok(Self(Mutex::new(rows)))
    }

    /// Stores a piece that has taken effect. Returns when it is on disk.
    pub(crate) async fn keep<B: Backend>(
        &self,
        backend: &B,
        piece: &IdentityPiece,
        now: UnixSeconds,
    ) -> Result<(), Problem> {
        let stored = {
            let mut rows = self.0.lock();
            rows.advance(now.0);
            tables::write(&mut rows, piece, 0, Position::default())?;
            store(backend, &mut rows)
        };
        outcome(stored).await
    }

    /// Hides an id or shows it again, and stores that. Returns when it is on disk.
    pub(crate) async fn hide<B: Backend>(
        &self,
        backend: &B,
        id: &Id,
        hidden: bool,
        now: UnixSeconds,
    ) -> Result<(), Problem> {
        let stored = {
            let mut rows = self.0.lock();
            rows.advance(now.0);
            // Under the lock: of two requests about an id, the disk gets the one that holds.
            hide(backend, id, hidden)?;
            let piece = IdentityPiece::Hide {
                id: id.clone(),
                hidden,
            };
            if let Err(error) = tables::write(&mut rows, &piece, 0, Position::default()) {
                // There is no room, so it was not hidden before.
                hide(backend, id, false)?;
                return Err(error.into());
            }
            store(backend, &mut rows)
        };
        outcome(stored).await
    }

    /// Returns the number of pieces.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let mut count = 0;
        tables::read(&self.0.lock(), |_| count += 1);
        count
    }
}

/// What becomes of rows on their way to the disk.
type Storing = oneshot::Receiver<Result<(), GraphError>>;

/// Hands changes of the rows to the graph. The caller has the rows locked: the disk gets changes in
/// their order.
fn store<B: Backend>(backend: &B, rows: &mut SharedRows) -> Storing {
    let (answer, answered) = oneshot::channel();
    let graph = backend.router().graph();
    graph.set_rows(rows.take_changes(), |stored| {
        // The client may have gone; what it asked for is done all the same.
        let _ = answer.send(stored);
    });
    answered
}

async fn outcome(storing: Storing) -> Result<(), Problem> {
    let stored = storing.await.unwrap_or(Err(GraphError::Ended));
    stored.map_err(|error| {
        let sentence = format!("it holds until the next start, and is not stored: {error}");
        Problem::from(error).saying(sentence)
    })
}
