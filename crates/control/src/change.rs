//! Changes of the graph, which are awaited without blocking a thread.
//!
//! Must never answer before the graph does: an answered change is on disk.

use axum::http::StatusCode;
use graph::{Answer, Change, Effect, GraphError};
use replication::{AppendError, Command, CommandResult, Wait};
use tokio::sync::oneshot;

use crate::api::Api;
use crate::problem::{Problem, ProblemType};
use crate::replicated::{Replicated, append, sentence_of_change};

/// Makes `changes`, in their order, and waits until they are durable.
///
/// # Errors
///
/// When the log of a cluster has not taken them.
pub(crate) async fn all(api: &Api, changes: Vec<Change>) -> Result<Answer, AppendError> {
    if let Some(Replicated { log, .. }) = &api.replicated {
        let commands = changes.into_iter().map(Command::Change).collect();
        let applied = append(&**log, commands, Wait::Logged).await?;
        let effect = |result| match result {
            CommandResult::Change(effect) => effect,
            CommandResult::Event { .. } | CommandResult::None => Err(GraphError::Ended),
        };
        return Ok(applied.results.into_iter().map(effect).collect());
    }
    let graph = api.router().graph();
    let count = changes.len();
    let (answer, answered) = oneshot::channel();
    graph.submit(changes, |effects| {
        // The client may have disconnected. Its changes are made nevertheless.
        let _ = answer.send(effects);
    });
    let ended = |_| vec![Err(GraphError::Ended); count];
    Ok(answered.await.unwrap_or_else(ended))
}

/// Makes one change and waits until it is durable.
pub(crate) async fn one(api: &Api, change: Change) -> Result<Effect, Problem> {
    let effects = all(api, vec![change]).await;
    let mut effects =
        effects.map_err(|error| Problem::from(error).saying(sentence_of_change(error)))?;
    Ok(effects.pop().unwrap_or(Err(GraphError::Ended))?)
}

impl From<GraphError> for Problem {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Busy { .. } | GraphError::Ended => Self::unavailable(error.to_string()),
            GraphError::Disk { .. } => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
                    .of_type(ProblemType::DiskFailed)
            }
            _ => Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        }
    }
}
