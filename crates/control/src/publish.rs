//! One event on one request: publish and send.
//!
//! Must never answer with a metric that no worker counted.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use router::{Event, EventType, Payload, Tally};

use crate::api::{Api, Shared};
use crate::backend::Backend;
use crate::caller::Caller;
use crate::metrics::Verb;
use crate::problem::Problem;
use crate::query::{Query, id_at};
use crate::receipt::{Receipt, settled, unsettled};
use crate::{body, payload};

/// When the answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// When every worker has had its turn.
    Full,
    /// When the event has its place in line.
    Early,
}

impl When {
    const WORDS: [(&'static str, Self); 2] = [("full", Self::Full), ("early", Self::Early)];
}

/// `POST /v1/publish/{subject}`
pub(crate) async fn publish<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    one(&api, Verb::Publish, request).await
}

/// `POST /v1/send/{id}`
pub(crate) async fn send<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    one(&api, Verb::Send, request).await
}

async fn one<B: Backend>(api: &Api<B>, verb: Verb, request: Request) -> Result<Response, Problem> {
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    let subject = id_at(&head.uri, 2)?;
    caller.check_id(&subject)?;
    let query = Query::parse(&head.uri, &["type", "receipt"])?;
    let event_type = event_type(&query)?;
    let when = query.word("receipt", &When::WORDS)?.unwrap_or(When::Full);
    let body = body::read(body, &head.headers, api.event_bytes_max).await?;
    let payload = payload::of_body(&head.headers, body)?;
    deliver(
        api,
        verb,
        Event {
            subject,
            event_type,
            payload,
        },
        when,
    )
    .await
}

/// `POST /relay/v1/publish/{subject}?data=…`: a page's event is a text in the query.
pub(crate) async fn relayed<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let uri = request.uri();
    let subject = id_at(uri, 2)?;
    let query = Query::parse(uri, &["type", "data"])?;
    let event_type = event_type(&query)?;
    let Some(data) = query.get("data") else {
        return Err(Problem::bad(
            "query",
            "the parameter \"data\" is missing; it contains the text to publish",
        ));
    };
    if data.len() > api.event_bytes_max {
        let detail = body::event_too_large("", data.len(), api.event_bytes_max);
        return Err(Problem::too_large(detail));
    }
    let payload = Payload::text(data.to_owned().into());
    deliver(
        &api,
        Verb::Publish,
        Event {
            subject,
            event_type,
            payload,
        },
        When::Full,
    )
    .await
}

fn event_type(query: &Query<'_>) -> Result<Option<EventType>, Problem> {
    let event_type = query.get("type").map(str::parse).transpose();
    event_type.map_err(|error| Problem::bad("query parameter \"type\"", error))
}

async fn deliver<B: Backend>(
    api: &Api<B>,
    verb: Verb,
    event: Event,
    when: When,
) -> Result<Response, Problem> {
    let _pending = api.published.pending();
    let router = api.router();
    let tally = Tally::new();
    let accepted = match verb {
        Verb::Send => router.send(event, &tally),
        Verb::Publish | Verb::Batch => router.publish(event, &tally),
    };
    api.published.one(verb, accepted.audience.online);
    if when == When::Early {
        let receipt = Receipt::early(router, accepted, tally.counts());
        return Ok((StatusCode::ACCEPTED, Json(receipt)).into_response());
    }
    match settled(&tally).await {
        Some(counts) => Ok(Json(Receipt::full(router, accepted, counts)).into_response()),
        None => {
            let id = router.event_id(accepted.sequence);
            let detail = format!("event {id}: {}", unsettled(&tally));
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, detail))
        }
    }
}
