//! Presence of one id, and whether it hides.

use axum::extract::{Request, State};
use graph::Id;
use serde::{Deserialize, Serialize};

use super::{Others, nodes_of, presence};
use crate::api::{Api, Presence, Shared};
use crate::body;
use crate::caller::Caller;
use crate::json::sentence;
use crate::limits::PRESENCE_BODY_BYTES_MAX;
use crate::problem::{Answered, Problem, in_json};
use crate::query::Query;
use crate::shared::piece::IdentityPiece;

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
