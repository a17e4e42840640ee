//! Names of nodes: each belongs to at most one live node.
//!
//! At start a node sends a request to its own name, and does not join if another node answers. Two
//! nodes may still join if they start at the same time or one was stalled. Then the log shows which
//! of them came first, and the other one ends ([`Membership::namesake`]).
//!
//! [`Membership::namesake`]: replication::Membership::namesake

use std::time::Duration;

use async_nats::Client;
use replication::{Drain, Draining, Incarnation};
use tokio::time::timeout;

use crate::error::JoinError;
use crate::options::Options;
use crate::settings;

/// Time for a node of the same name to answer. If there is none, the engine reports that at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks that no other node has the name of this one, whose incarnation is `incarnation`.
///
/// # Errors
///
/// [`JoinError::NameTaken`] if one does.
pub(crate) async fn check(
    client: &Client,
    options: &Options,
    incarnation: Incarnation,
) -> Result<(), JoinError> {
    let node = options.node.as_str();
    let subject = settings::drain_subject(&options.cluster, node);
    // A request to drain an incarnation that no other node has: a node answers it but does not
    // drain.
    let request = Drain { incarnation }.encode();
    match timeout(ANSWER_TIMEOUT, client.request(subject, request)).await {
        Ok(Ok(message)) => match Draining::decode(&message.payload) {
            Ok(Draining { incarnation }) => Err(JoinError::NameTaken {
                node: node.to_owned(),
                incarnation,
            }),
            Err(error) => {
                tracing::warn!("the answer of the node {node} cannot be read: {error}");
                Ok(())
            }
        },
        Ok(Err(_)) => Ok(()),
        Err(_) => {
            tracing::warn!(
                "another node with the name {node} does not answer; if it continues, the one that \
                 joined later ends"
            );
            Ok(())
        }
    }
}
