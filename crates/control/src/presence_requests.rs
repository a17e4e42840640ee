//! Presence for backends: which ids are online, edges as they come, and ids that hide.
//!
//! Must never let the presence thread wait: edges are read from a ring.

/// Edges as they come.
pub(crate) mod feed;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use graph::Id;
use replication::Status;
use serde::{Deserialize, Serialize};

use crate::api::{Api, Presence, Shared};
use crate::body;
use crate::caller::Caller;
use crate::items::Shape;
use crate::json::sentence;
use crate::limits::{
    ONLINE_BODY_BYTES_MAX, ONLINE_ID_BYTES_MAX, ONLINE_IDS_MAX, PRESENCE_BODY_BYTES_MAX,
};
use crate::problem::{Answered, Problem, ProblemType, in_json};
use crate::query::Query;
use crate::shared::piece::IdentityPiece;
use crate::stream::{Stream, Turn, announced};

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

/// Presence of an id.
#[derive(Serialize)]
pub(crate) struct OfId {
    id: Id,
    /// Whether it is online, hidden or not.
    online: bool,
    hidden: bool,
    /// In a cluster: the nodes on which it is online.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<Box<str>>>,
}

/// What a request asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    hidden: bool,
}

/// `GET /v1/presence/{id}`
pub(crate) async fn get(State(api): State<Shared>, request: Request) -> Answered {
    let id = Caller::id_of(&request)?;
    Query::parse(request.uri(), &[])?;
    let presence = presence(&api)?;
    in_json(of(&api, presence, id))
}

/// `PUT /v1/presence/{id}`
pub(crate) async fn put(State(api): State<Shared>, request: Request) -> Answered {
    let id = Caller::id_of(&request)?;
    Query::parse(request.uri(), &[])?;
    let presence = presence(&api)?;
    let (head, body) = request.into_parts();
    let body = body::read(body, &head.headers, PRESENCE_BODY_BYTES_MAX).await?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|error| {
        let why = format!("{}; send {{\"hidden\":true}}", sentence(&error));
        Problem::bad("body", why)
    })?;
    api.share(IdentityPiece::Hide {
        id: id.clone(),
        hidden: asked.hidden,
    })
    .await?;
    in_json(of(&api, presence, id))
}

/// Returns the presence of an id; `None` where it is not kept.
pub(crate) fn known(api: &Api, id: &Id) -> Option<OfId> {
    let presence = api.presence.as_ref()?;
    Some(of(api, presence, id.clone()))
}

fn of(api: &Api, presence: &Presence, id: Id) -> OfId {
    let key = api.router().graph().find(&id);
    OfId {
        online: key.is_some_and(|key| presence.online.is_online(key)),
        hidden: key.is_some_and(|key| presence.online.is_hidden(key)),
        nodes: api.replicated.as_ref().map(|replicated| {
            let status = replicated.log.status();
            nodes_of(api, &status, &id, Others::AndThis)
        }),
        id,
    }
}

/// `POST /v1/online`: which of these ids are online. Holds no more of the request than the piece at
/// hand and the answer.
pub(crate) async fn online(State(api): State<Shared>, request: Request) -> Answered {
    let online = presence(&api)?.online.clone();
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    Query::parse(&head.uri, &[])?;
    let shape = announced(&head.headers)?.unwrap_or(Shape::Either);
    let mut stream = Stream::open(body, shape, ONLINE_ID_BYTES_MAX, None).await?;
    let graph = api.router().graph();
    let mut answer = br#"{"online":["#.to_vec();
    let empty = answer.len();
    let (mut bytes, mut turn) = (0, Turn::default());
    loop {
        while let Some(item) = stream.items.next() {
            let item = item.map_err(|(number, fault)| bad(number, fault))?;
            let number = item.number;
            bytes += item.text.len();
            if number > ONLINE_IDS_MAX || bytes > ONLINE_BODY_BYTES_MAX {
                return Err(Problem::too_large(format!(
                    "the request has more than {ONLINE_IDS_MAX} ids or {ONLINE_BODY_BYTES_MAX} \
                     bytes; ask for fewer in a request"
                )));
            }
            let id: Id =
                serde_json::from_slice(item.text).map_err(|error| bad(number, sentence(&error)))?;
            caller.check_id(&id)?;
            if graph.find(&id).is_some_and(|key| online.is_online(key)) {
                if answer.len() > empty {
                    answer.push(b',');
                }
                // As it was spelt, which is JSON.
                answer.extend_from_slice(item.text);
            }
            if turn.is_over(0) {
                turn.end().await;
            }
        }
        if stream.has_ended() {
            break;
        }
        let more = stream.more().await;
        more.map_err(|error| Problem::bad("body", error))?;
    }
    answer.extend_from_slice(b"]}");
    Ok(([(CONTENT_TYPE, "application/json")], Body::from(answer)).into_response())
}

fn bad(number: u64, why: impl std::fmt::Display) -> Problem {
    Problem::bad(&format!("id {number} of the body"), why)
}
