//! Ids that hide: offline for everyone but the control API.
//!
//! Owns the references that keep their keys from being given to other ids. Which ids hide is stored
//! with the graph, and is the same on all nodes of a cluster: a piece of the shared state.

use graph::Id;

use crate::api::Api;
use crate::backend::{Backend, IdentityError};
use crate::identity::now;
use crate::problem::Problem;
use crate::shared::piece::IdentityPiece;

/// Hides an id on this server, or shows it again. Does nothing where presence is not kept.
///
/// # Errors
///
/// When there is no room for an id that nobody knew.
pub(crate) fn apply<B: Backend>(
    backend: &B,
    id: &Id,
    is_hidden: bool,
) -> Result<(), IdentityError> {
    let Some(online) = backend.online() else {
        return Ok(());
    };
    let graph = backend.router().graph();
    if is_hidden {
        // Held for as long as it hides: another id must not hide in its place.
        let key = graph.hold(id).map_err(|full| IdentityError::full(&full))?;
        if !online.set_hidden(key, true) {
            graph.release(key);
        }
    } else if let Some(key) = graph.find(id)
        && online.set_hidden(key, false)
    {
        graph.release(key);
    }
    Ok(())
}

/// Hides an id or shows it again, for good. Returns when it is stored, in a cluster by all nodes.
pub(super) async fn set<B: Backend>(api: &Api<B>, id: &Id, is_hidden: bool) -> Result<(), Problem> {
    match &api.replicated {
        None => api.own.hide(&api.backend, id, is_hidden, now()).await,
        Some(replicated) => {
            let (id, hidden) = (id.clone(), is_hidden);
            replicated.share(IdentityPiece::Hide { id, hidden }).await
        }
    }
}
