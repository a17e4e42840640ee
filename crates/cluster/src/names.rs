//! Names of nodes: each belongs to one node that lives.
//!
//! A node that starts asks whether another one answers to its name, and does not join if so. Two
//! that start at once, or one that stood still when it was asked, may both join: then the log says
//! which came first, and the other one ends ([`Membership::namesake`]).
//!
//! [`Membership::namesake`]: replication::Membership::namesake

use std::time::Duration;

use async_nats::Client;
use replication::{Drain, Draining, Incarnation};
use tokio::time::timeout;

use crate::error::JoinError;
use crate::options::Options;
use crate::settings;

/// Time for a node of the name to answer. If there is none, the engine says so at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks that no other node answers to the name of this one, which has `incarnation`.
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
    // A request to drain an incarnation that no other node has: it is answered, and not followed.
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
                "another node of the name {node} does not answer; if it goes on, the one that \
                 joined later ends"
            );
            Ok(())
        }
    }
}
