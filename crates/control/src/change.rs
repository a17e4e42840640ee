//! Changes of the graph, waited for without holding a thread.
//!
//! Must never answer before the graph does: an answer to a change means that it is on disk.

use axum::http::StatusCode;
use graph::{Answer, Change, Effect, Graph, GraphError};
use tokio::sync::oneshot;

use crate::problem::Problem;

/// Makes `changes`, in their order, and waits until they are durable.
pub(crate) async fn all(graph: &Graph, changes: Vec<Change>) -> Answer {
    let count = changes.len();
    let (answer, answered) = oneshot::channel();
    graph.submit(changes, |effects| {
        // The client may have gone; what it asked for is done all the same.
        let _ = answer.send(effects);
    });
    let ended = |_| vec![Err(GraphError::Ended); count];
    answered.await.unwrap_or_else(ended)
}

/// Makes one change and waits until it is durable.
pub(crate) async fn one(graph: &Graph, change: Change) -> Result<Effect, Problem> {
    let mut effects = all(graph, vec![change]).await;
    let effect = effects.pop().expect("an effect for each change");
    Ok(effect?)
}

impl From<GraphError> for Problem {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Busy { .. } | GraphError::Ended => Self::unavailable(error.to_string()),
            GraphError::Disk { .. } => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
            _ => Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        }
    }
}
