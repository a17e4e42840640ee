//! Inspecting and closing the sessions of an id.
//!
//! Must never touch a connection: the workers report and close.

use std::cmp::Reverse;
use std::fmt;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use graph::Id;
use serde::Serialize;
use serde_json::json;
use server::SessionReport;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, timeout_at};

use crate::api::Shared;
use crate::caller::Caller;
use crate::identity;
use crate::limits::{INSPECT_WAIT, SLOWEST_DEFAULT, SLOWEST_MAX};
use crate::presence_requests::{self, OfId};
use crate::problem::{Answered, Problem, in_json};
use crate::query::Query;
use crate::shared::piece::IdentityPiece;

#[derive(Serialize)]
struct Sessions {
    id: Id,
    /// All sessions of the id when it was asked about.
    total: usize,
    /// Those of them in `sessions`: a worker reports a bounded number, and some may have ended.
    shown: usize,
    sessions: Vec<Session>,
    /// Whether it is online, also on other nodes, where that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    presence: Option<OfId>,
}

#[derive(Serialize)]
struct Session {
    session: String,
    ids: Vec<Id>,
    transport: &'static str,
    age_seconds: f64,
    peer: Option<String>,
    worker: u16,
    backlog_frames: usize,
    backlog_bytes: usize,
    bytes_acknowledged: Option<u64>,
    bytes_unacknowledged: Option<u64>,
}

impl From<SessionReport> for Session {
    fn from(report: SessionReport) -> Self {
        Self {
            session: format!("{:?}", report.session),
            ids: report.ids,
            transport: report.transport,
            // Milliseconds are what a timer of the server can tell apart.
            age_seconds: (report.age.as_secs_f64() * 1e3).round() / 1e3,
            peer: report.peer.map(|peer| peer.to_string()),
            worker: report.session.worker().0,
            backlog_frames: report.backlog_frames,
            backlog_bytes: report.backlog_bytes,
            bytes_acknowledged: report.bytes_acknowledged,
            bytes_unacknowledged: report.bytes_unacknowledged,
        }
    }
}

/// `GET /v1/sessions/{id}`
pub(crate) async fn inspect(State(api): State<Shared>, request: Request) -> Answered {
    let id = Caller::id_of(&request)?;
    Query::parse(request.uri(), &[])?;
    let asked = api.router().sessions(&id);
    let gathered = gather(|report| api.server.inspect(&asked, report)).await;
    let mut sessions = gathered.map_err(|sessions: Vec<Session>| {
        late(format_args!(
            "the workers have reported {} of {} sessions",
            sessions.len(),
            asked.len()
        ))
    })?;
    // Workers answer in any order; the oldest first reads best.
    sessions.sort_by(|a, b| b.age_seconds.total_cmp(&a.age_seconds));
    in_json(Sessions {
        total: asked.len(),
        shown: sessions.len(),
        sessions,
        presence: presence_requests::known(&api, &id),
        id,
    })
}

/// `GET /v1/slowest`
pub(crate) async fn slowest(State(api): State<Shared>, request: Request) -> Answered {
    let query = Query::parse(request.uri(), &["limit"])?;
    let limit = query.count("limit", SLOWEST_DEFAULT, SLOWEST_MAX)?;
    let gathered = gather(|report| api.server.slowest(limit, report)).await;
    let mut sessions =
        gathered.map_err(|_: Vec<Session>| late(format_args!("not all workers have reported")))?;
    sessions.sort_by_key(|session| Reverse(session.backlog_bytes));
    sessions.truncate(limit);
    in_json(json!({ "sessions": sessions }))
}

/// Returns what the workers report, or as much as came in time.
pub(crate) async fn gather<T: From<SessionReport>>(
    ask: impl FnOnce(Box<dyn Fn(Vec<SessionReport>) + Send + Sync>),
) -> Result<Vec<T>, Vec<T>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "holds one report of each worker at most"
    )]
    let (sender, mut reports) = unbounded_channel();
    // The sender goes with the closure, when the last worker has answered.
    ask(Box::new(move |sessions| {
        let _ = sender.send(sessions);
    }));
    let deadline = Instant::now() + INSPECT_WAIT;
    let mut sessions = Vec::new();
    loop {
        match timeout_at(deadline, reports.recv()).await {
            Ok(Some(reported)) => sessions.extend(reported.into_iter().map(T::from)),
            Ok(None) => return Ok(sessions),
            Err(_) => return Err(sessions),
        }
    }
}

pub(crate) fn late(found: fmt::Arguments<'_>) -> Problem {
    Problem::new(
        StatusCode::GATEWAY_TIMEOUT,
        format!(
            "{found} after {} s; a worker is blocked or overloaded, see /v1/stats",
            INSPECT_WAIT.as_secs()
        ),
    )
}

#[derive(Serialize)]
struct Closed {
    closed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    banned_seconds: Option<u64>,
}

/// `DELETE /v1/sessions/{id}`
pub(crate) async fn close(State(api): State<Shared>, request: Request) -> Answered {
    let id = Caller::id_of(&request)?;
    let caller = Caller::of(&request);
    let query = Query::parse(request.uri(), &["ban"])?;
    // Banned first: a client whose session ends comes back at once.
    let banned = identity::ban_of(&query)?;
    if let Some(duration) = banned {
        identity::ban(&api, &caller, &id, duration).await?;
    }
    let sessions = api.router().sessions(&id);
    match &api.replicated {
        None => api.server.close(&sessions),
        Some(replicated) => replicated.share(IdentityPiece::Close { id }).await?,
    }
    in_json(Closed {
        closed: sessions.len(),
        banned_seconds: banned.map(|duration| duration.as_secs()),
    })
}
