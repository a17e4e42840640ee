//! The cluster as this node sees it, and draining one of its nodes.
//!
//! Must never ask other nodes to answer a request: a node reports what it has heard.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use replication::{DrainError, EngineStatus, NodeState, NodeStatus, Status};
use serde::Serialize;
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
    node: Box<str>,
    epoch: Box<str>,
    incarnation: Option<String>,
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_ready: Option<Box<str>>,
    connected: bool,
    applied: u64,
    last: u64,
    lag_seconds: f64,
    in_flight: usize,
    waiting_bytes: usize,
    entries: u64,
    skipped: u64,
    resent: u64,
    engine: Engine,
    nodes: Vec<Node>,
}

/// The engine, by its latest answer to this node.
#[derive(Serialize)]
struct Engine {
    server: Option<Box<str>>,
    leader: Option<Box<str>>,
    leader_silent_seconds: f64,
    followers: Vec<Follower>,
    first: u64,
    bytes: u64,
    bytes_max: u64,
    connects: u64,
    disconnects: u64,
    dropped: u64,
    consumers: u64,
    consumers_silent: u64,
    consumers_skipped: u64,
}

/// A server that follows the leader of the log.
#[derive(Serialize)]
struct Follower {
    name: Box<str>,
    current: bool,
    lag: u64,
    silent_seconds: f64,
}

/// A node, by its latest report to this one.
#[derive(Serialize)]
struct Node {
    name: Box<str>,
    version: Box<str>,
    incarnation: String,
    state: &'static str,
    applied: u64,
    /// Entries of the log that the node has not applied.
    behind: u64,
    lag_seconds: f64,
    silent_seconds: f64,
    uptime_seconds: f64,
    workers: u64,
    busy_seconds: f64,
    connections: u64,
    sessions: u64,
    written: u64,
    bytes_written: u64,
    backlog_bytes: u64,
    waiting_bytes: u64,
    disconnects: u64,
}

/// A node that drains.
#[derive(Serialize)]
struct Draining {
    node: String,
    incarnation: String,
    /// Number of its sessions, by its latest report.
    sessions: u64,
    /// Other nodes that are ready, to which its clients can go.
    others_ready: usize,
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
    let draining = Draining {
        sessions: sessions.map_or(0, |it| it.sessions),
        others_ready: status.nodes.iter().filter(is_other).count(),
        incarnation: incarnation.to_string(),
        node,
    };
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
    fn from(status: Status) -> Self {
        let last = status.last.number();
        Self {
            node: status.node,
            epoch: status.epoch,
            incarnation: status
                .incarnation
                .map(|incarnation| incarnation.to_string()),
            ready: status.not_ready.is_none(),
            not_ready: status.not_ready,
            connected: status.is_connected,
            applied: status.applied.number(),
            last,
            lag_seconds: seconds(status.lag),
            in_flight: status.in_flight,
            waiting_bytes: status.waiting_bytes,
            entries: status.entries,
            skipped: status.skipped,
            resent: status.resent,
            engine: status.engine.into(),
            nodes: status
                .nodes
                .into_iter()
                .map(|node| Node::new(node, last))
                .collect(),
        }
    }
}

impl From<EngineStatus> for Engine {
    fn from(engine: EngineStatus) -> Self {
        let followers = engine.followers.into_iter().map(|follower| Follower {
            name: follower.name,
            current: follower.is_current,
            lag: follower.lag,
            silent_seconds: seconds(follower.silent),
        });
        Self {
            server: engine.server,
            leader: engine.leader,
            leader_silent_seconds: seconds(engine.leaderless),
            followers: followers.collect(),
            first: engine.first,
            bytes: engine.bytes,
            bytes_max: engine.bytes_max,
            connects: engine.connects,
            disconnects: engine.disconnects,
            dropped: engine.dropped,
            consumers: engine.consumers,
            consumers_silent: engine.consumers_silent,
            consumers_skipped: engine.consumers_skipped,
        }
    }
}

impl Node {
    fn new(node: NodeStatus, last: u64) -> Self {
        let counters = node.counters;
        Self {
            name: node.name,
            version: node.version,
            incarnation: node.incarnation.to_string(),
            state: node.state.name(),
            applied: node.applied.number(),
            behind: last.saturating_sub(node.applied.number()),
            lag_seconds: seconds(counters.lag),
            silent_seconds: seconds(node.silent),
            uptime_seconds: seconds(counters.uptime),
            workers: counters.workers,
            busy_seconds: seconds(counters.busy),
            connections: counters.connections,
            sessions: node.sessions,
            written: counters.written,
            bytes_written: counters.bytes_written,
            backlog_bytes: counters.backlog_bytes,
            waiting_bytes: counters.waiting_bytes,
            disconnects: counters.disconnects,
        }
    }
}

/// Returns a time in seconds, rounded to milliseconds.
fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1e3
}
