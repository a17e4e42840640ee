//! The cluster as this node sees it, and draining one of its nodes.
//!
//! Must never ask other nodes to answer a request: a node reports what it has heard.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use replication::{DrainError, NodeState, NodeStatus, Status};
use serde::Serialize;
use serde_json::json;
use tokio::sync::oneshot;

use crate::api::{Api, Shared};
use crate::problem::{Answered, Problem, ProblemType, in_json};
use crate::query::Query;
use crate::replicated::Replicated;

/// Segments of the path before the name of a node, and after it.
const NODES: &str = "/v1/cluster/nodes/";
const DRAIN: &str = "/drain";

/// This node and its cluster.
#[derive(Serialize)]
pub(crate) struct Cluster {
    #[serde(flatten)]
    status: Status,
    ready: bool,
    nodes: Vec<Node>,
}

/// A node, by its latest report to this one.
#[derive(Serialize)]
struct Node {
    #[serde(flatten)]
    status: NodeStatus,
    /// Entries of the log that the node has not applied.
    behind: u64,
}

/// `GET /v1/cluster`
pub(crate) async fn cluster(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    replicated(&api)?;
    in_json(of(&api))
}

/// Returns this node and its cluster, if it has one.
pub(crate) fn of(api: &Api) -> Option<Cluster> {
    let mut status = api.replicated.as_ref()?.log.status();
    if api.server.is_draining() && status.not_ready.is_none() {
        status.not_ready = Some("this node is draining".into());
    }
    Some(status.into())
}

/// `POST /v1/cluster/nodes/{node}/drain`
pub(crate) async fn drain(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let path = request.uri().path();
    let node = path
        .strip_prefix(NODES)
        .and_then(|it| it.strip_suffix(DRAIN));
    // A name has no character that would be encoded in a path.
    let node = node.unwrap_or_default().to_owned();
    let log = &replicated(&api)?.log;
    let status = log.status();
    let (answer, answered) = oneshot::channel();
    let done = Box::new(move |outcome| {
        // The client may have disconnected. The node drains nevertheless.
        let _ = answer.send(outcome);
    });
    log.drain(&node, done);
    let incarnation = answered.await.unwrap_or(Err(DrainError::Unreachable))?;
    tracing::info!("an operator drains the node {node}");
    let is_other = |it: &&NodeStatus| *it.name != *node && it.state == NodeState::Ready;
    let sessions = status.nodes.iter().find(|it| it.incarnation == incarnation);
    let draining = json!({
        "node": node,
        "incarnation": incarnation,
        // By its latest report.
        "sessions": sessions.map_or(0, |it| it.sessions),
        // To which its clients can go.
        "others_ready": status.nodes.iter().filter(is_other).count(),
    });
    Ok((StatusCode::ACCEPTED, Json(draining)).into_response())
}

fn replicated(api: &Api) -> Result<&Replicated, Problem> {
    api.replicated.as_ref().ok_or_else(|| {
        let detail = "this server is not a node of a cluster; start it with --cluster";
        Problem::new(StatusCode::NOT_FOUND, detail).of_type(ProblemType::NoCluster)
    })
}

impl From<DrainError> for Problem {
    fn from(error: DrainError) -> Self {
        let status = match error {
            DrainError::Unknown { .. } => StatusCode::NOT_FOUND,
            DrainError::Silent { .. } => StatusCode::GATEWAY_TIMEOUT,
            DrainError::Restarted => StatusCode::CONFLICT,
            DrainError::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Status> for Cluster {
    fn from(mut status: Status) -> Self {
        let last = status.last.number();
        let nodes = std::mem::take(&mut status.nodes).into_iter();
        let node = |node: NodeStatus| Node {
            behind: last.saturating_sub(node.applied.number()),
            status: node,
        };
        Self {
            ready: status.not_ready.is_none(),
            nodes: nodes.map(node).collect(),
            status,
        }
    }
}
