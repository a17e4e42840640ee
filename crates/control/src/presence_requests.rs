//! Presence for backends: which ids are online, edges as they come, and ids that hide.
//!
//! Must never let the presence thread wait: edges are read from a ring.

/// Which of these ids are online.
pub(crate) mod online;
/// Edges as they come.
pub(crate) mod feed;
/// Presence of one id.
pub(crate) mod one;

use axum::http::StatusCode;
use graph::Id;
use replication::Status;

use crate::api::{Api, Presence};
use crate::problem::{Problem, ProblemType};

/// Returns the presence of the server.
fn presence(api: &Api) -> Result<&Presence, Problem> {
    api.presence.as_ref().ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "there is no presence; start the server with --presence",
        )
        .of_type(ProblemType::NoPresence)
    })
}

/// Which nodes are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// All nodes.
    AndThis,
    /// All but this one.
    Only,
}

/// Returns the names of the nodes of the cluster on which an id is online, as far as this node
/// knows them, sorted.
pub(crate) fn nodes_of(api: &Api, status: &Status, id: &Id, others: Others) -> Vec<Box<str>> {
    let Some(key) = api.router().graph().find(id) else {
        return Vec::new();
    };
    let presence = api.server.presence();
    let found = presence.map_or_else(Vec::new, |presence| presence.nodes_of(key));
    let own = status.incarnation.map(|own| own.number());
    let is_meant = |number: u64| others == Others::AndThis || Some(number) != own;
    let nodes = status.nodes.iter().filter(|node| {
        let number = node.incarnation.number();
        is_meant(number) && found.iter().any(|name| name.0 == number)
    });
    nodes.map(|node| node.name.clone()).collect()
}
