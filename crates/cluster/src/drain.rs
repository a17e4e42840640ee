//! Requests to drain a node, which also show whether a name is taken.
//!
//! Each name belongs to at most one live node. At start a node sends a request to its own name, and
//! does not join if another node answers. Two nodes may still join if they start at the same time
//! or one was stalled. Then the log shows which of them came first, and the other one ends
//! ([`Membership::namesake`]).
//!
//! [`Membership::namesake`]: replication::Membership::namesake

use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, RequestError};
use replication::{DrainError, DrainMessage, Incarnation, NodeStatus};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::error::JoinError;
use crate::options::{Name, Options};
use crate::settings;

/// Time for a node to answer. If there is none of the name, the engine reports that at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends a request to drain an incarnation to the node of this name.
async fn request(
    client: &Client,
    cluster: &Name,
    node: &str,
    incarnation: Incarnation,
) -> Result<Result<Message, RequestError>, Elapsed> {
    let subject = settings::drain_subject(cluster, node);
    let bytes = DrainMessage::Request.encode(incarnation);
    timeout(ANSWER_TIMEOUT, client.request(subject, bytes)).await
}

/// Requests a node to drain.
pub(crate) async fn drain(
    client: Client,
    cluster: Name,
    node: NodeStatus,
) -> Result<Incarnation, DrainError> {
    if client.connection_state() != State::Connected {
        return Err(DrainError::Unreachable);
    }
    let answer = request(&client, &cluster, &node.name, node.incarnation).await;
    let silent = node.silent;
    let Ok(Ok(message)) = answer else {
        return Err(DrainError::Silent { silent });
    };
    match DrainMessage::Answer.decode(&message.payload) {
        Ok(incarnation) if incarnation == node.incarnation => Ok(incarnation),
        _ => Err(DrainError::Restarted),
    }
}

/// Checks that no other node has the name of this one, whose incarnation is `incarnation`.
///
/// # Errors
///
/// [`JoinError::NameTaken`] if one does.
pub(crate) async fn check_name(
    client: &Client,
    options: &Options,
    incarnation: Incarnation,
) -> Result<(), JoinError> {
    let node = options.node.as_str();
    // No other node has this incarnation: it answers, but does not drain.
    match request(client, &options.cluster, node, incarnation).await {
        Ok(Ok(message)) => match DrainMessage::Answer.decode(&message.payload) {
            Ok(incarnation) => {
                let node = node.to_owned();
                return Err(JoinError::NameTaken { node, incarnation });
            }
            Err(error) => tracing::warn!("the answer of the node {node} cannot be read: {error}"),
        },
        Ok(Err(_)) => {}
        Err(_) => tracing::warn!(
            "another node with the name {node} does not answer; if it continues, the one that \
             joined later ends"
        ),
    }
    Ok(())
}
