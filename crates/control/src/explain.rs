//! Whether an id would get what is published about another now, and why.
//!
//! Gathers what this node knows, and of other nodes what presence tells. Must never publish, ask
//! another node, or decide anything: the router and the workers do.

/// The verdict and its reasons.
mod verdict;

use axum::extract::{Request, State};
use graph::{Graph, Id};
use presence::Online;
use serde::Serialize;
use serde_json::{Value, json};
use server::SessionReport;

use crate::api::{Api, Shared};
use crate::caller::Caller;
use crate::limits::EXPLAINED_MAX;
use crate::presence_requests::{Others, nodes_of};
use crate::problem::{Answered, Problem, in_json};
use crate::query::Query;
use crate::sessions::{gather, late};
use crate::time::now;
use verdict::{Facts, NodeFacts, Reason, SessionFacts, Verdict};

/// The answer.
#[derive(Serialize)]
struct Explanation {
    subject: Id,
    subscriber: Id,
    /// `yes`, `late`, `no` or `unknown`.
    verdict: Verdict,
    /// The verdict as a sentence.
    summary: String,
    reasons: Vec<Reason>,
    /// Sessions of the subscriber on this node.
    total: usize,
    /// Those of them that were looked at.
    sessions: Vec<Session>,
    /// The node of a cluster whose view this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Box<str>>,
}

/// A session of the subscriber.
#[derive(Serialize)]
struct Session {
    session: String,
    transport: &'static str,
    worker: u16,
    /// The id of the session by which it gets the event.
    via: Option<Id>,
    /// Whether it is fed from the history.
    behind: bool,
    backlog_frames: usize,
    backlog_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_gap: Option<Value>,
}

/// `GET /v1/explain`
pub(crate) async fn explain(State(api): State<Shared>, request: Request) -> Answered {
    let caller = Caller::of(&request);
    let query = Query::parse(request.uri(), &["subject", "subscriber"])?;
    let (subject, subscriber) = (id_of(&query, "subject")?, id_of(&query, "subscriber")?);
    caller.check_id(&subject)?;
    caller.check_id(&subscriber)?;
    let mut asked = api.router().sessions(&subscriber);
    let total = asked.len();
    asked.truncate(EXPLAINED_MAX);
    let gathered = gather(|report| api.server.inspect(&asked, report)).await;
    let reports = gathered.map_err(|reports: Vec<SessionReport>| {
        late(format_args!(
            "the workers have reported {} of {} sessions",
            reports.len(),
            asked.len()
        ))
    })?;
    let facts = facts(&api, &subject, &subscriber, total, reports);
    let (verdict, summary, reasons) = facts.explain();
    let answer = Explanation {
        subject,
        subscriber,
        verdict,
        summary,
        reasons,
        total,
        sessions: facts.sessions.into_iter().map(Session::from).collect(),
        node: facts.node.map(|node| node.name),
    };
    in_json(answer)
}

fn id_of(query: &Query<'_>, name: &str) -> Result<Id, Problem> {
    let what = || format!("query parameter {name:?}");
    let text = query.get(name).ok_or_else(|| {
        let why = "it is missing; ask with ?subject=A&subscriber=B";
        Problem::bad(&what(), why)
    })?;
    Id::parse(text).map_err(|error| Problem::bad(&what(), error))
}

/// Returns what this node knows at this time.
fn facts(
    api: &Api,
    subject: &Id,
    subscriber: &Id,
    total: usize,
    reports: Vec<SessionReport>,
) -> Facts {
    let router = api.router();
    let now = now();
    let slow = api.server.stats().slow;
    let closed_slow = slow.iter().find(|(id, _)| id == subscriber);
    let online = api.server.presence().map(|presence| presence.online());
    let session = |report| SessionFacts {
        via: via(router.graph(), &report, subscriber, subject),
        report,
    };
    Facts {
        subject: subject.clone(),
        subscriber: subscriber.clone(),
        has_edge: is_subscribed(router.graph(), subscriber, subject),
        total,
        sessions: reports.into_iter().map(session).collect(),
        standing: api.server.standing(subscriber, now),
        closed_slow: closed_slow.map_or(0, |(_, count)| *count),
        has_history: router.recorder().is_some(),
        now,
        is_draining: api.server.is_draining(),
        hidden: hidden(
            online.map(AsRef::as_ref),
            router.graph(),
            [subscriber, subject],
        ),
        node: api.replicated.as_ref().map(|replicated| {
            let status = replicated.log.status();
            let is_known = online.is_some_and(|online| online.is_settled());
            NodeFacts {
                others: is_known.then(|| nodes_of(api, &status, subscriber, Others::Only)),
                name: status.node,
                not_ready: status.not_ready,
            }
        }),
    }
}

/// Returns those of two ids that hide.
fn hidden(online: Option<&Online>, graph: &Graph, ids: [&Id; 2]) -> Vec<Id> {
    let is_hidden = |id: &Id| Some(online?.is_hidden(graph.find(id)?));
    let mut hidden = ids.map(|id| is_hidden(id).unwrap_or(false).then(|| id.clone()));
    if ids[0] == ids[1] {
        hidden[1] = None;
    }
    hidden.into_iter().flatten().collect()
}

/// Returns the id by which a session gets what is published about `subject`, if it does: the
/// subscriber itself before others that the session is logged in as.
fn via(graph: &Graph, report: &SessionReport, subscriber: &Id, subject: &Id) -> Option<Id> {
    std::iter::once(subscriber)
        .chain(&report.ids)
        .find(|id| is_subscribed(graph, id, subject))
        .cloned()
}

/// Returns whether one id gets what is published about another. Every id is subscribed to itself.
fn is_subscribed(graph: &Graph, subscriber: &Id, subject: &Id) -> bool {
    let edge = || {
        let (subscriber, subject) = (graph.find(subscriber)?, graph.find(subject)?);
        Some(graph.is_subscribed(subscriber, subject))
    };
    subscriber == subject || edge().unwrap_or(false)
}

impl From<SessionFacts> for Session {
    fn from(SessionFacts { report, via }: SessionFacts) -> Self {
        Self {
            session: format!("{:?}", report.session),
            transport: report.transport,
            worker: report.session.worker().0,
            via,
            behind: report.is_behind,
            backlog_frames: report.backlog_frames,
            backlog_bytes: report.backlog_bytes,
            last_gap: report
                .last_gap
                .map(|gap| json!({ "lost": gap.lost, "seconds_ago": gap.ago.as_secs_f64() })),
        }
    }
}
