//! One event on one request: publish and send.
//!
//! Must never answer with a metric that no worker counted.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use bytes::Bytes;
use graph::Id;
use router::{Event, EventType, Payload, Tally};

use crate::api::{Api, Shared};
use crate::caller::Caller;
use crate::cloudevents::{BinaryMode, CloudEvent, STRUCTURED};
use crate::idempotency::{self, Begun, Fingerprinting, First, answer};
use crate::metrics::published::Verb;
use crate::problem::{Answered, Problem};
use crate::query::{Query, id_at};
use crate::receipt::{Receipt, When, settled, stored, unsettled};
use crate::replicated;
use crate::replicated::publish::Keyed;
use crate::shared::piece::Digest;
use crate::{body, payload};

/// `POST /v1/publish/{subject}`
pub(crate) async fn publish(State(api): State<Shared>, request: Request) -> Answered {
    one(&api, Verb::Publish, request).await
}

/// `POST /v1/send/{id}`
pub(crate) async fn send(State(api): State<Shared>, request: Request) -> Answered {
    one(&api, Verb::Send, request).await
}

/// Returns whether a request to publish without a subject in its path is one CloudEvent.
pub(crate) fn is_one_cloud_event(headers: &HeaderMap) -> bool {
    headers.contains_key("ce-specversion") || payload::media_type(headers) == STRUCTURED
}

/// `POST /v1/publish` with one CloudEvent, which names its subject itself.
pub(crate) async fn cloud_event(api: &Api, request: Request) -> Answered {
    one_about(api, Verb::Publish, request, None).await
}

async fn one(api: &Api, verb: Verb, request: Request) -> Answered {
    let subject = id_at(request.uri(), 2)?;
    one_about(api, verb, request, Some(subject)).await
}

async fn one_about(api: &Api, verb: Verb, request: Request, subject: Option<Id>) -> Answered {
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    if let Some(subject) = &subject {
        caller.check_id(subject)?;
    }
    let query = Query::parse(&head.uri, &["type", "receipt", "history"])?;
    let event_type = event_type(&query)?;
    let when = query.word("receipt", &When::WORDS)?.unwrap_or(When::Full);
    let is_stored = is_stored(&query)?;
    let body = body::read(body, &head.headers, api.event_bytes_max).await?;
    if let Some(replicated) = &api.replicated {
        let key = idempotency::shared_name(&head.headers, &caller, api.router())?;
        let keyed = key.map(|key| Keyed {
            key,
            request: request_digest(&head.uri, &head.headers, &body),
        });
        let event = event(&head.headers, body, subject, event_type)?;
        caller.check_id(&event.subject)?;
        return replicated::publish::deliver(api, replicated, verb, event, is_stored, when, keyed)
            .await;
    }
    let first = match api.keys.begin(&head.headers, &caller, api.router())? {
        None => None,
        Some(begun) => {
            let request = request_digest(&head.uri, &head.headers, &body);
            match begun {
                Begun::Again(stored) => return stored.again(request),
                Begun::First(first) => Some((first, request)),
            }
        }
    };
    let event = event(&head.headers, body, subject, event_type)?;
    caller.check_id(&event.subject)?;
    deliver(api, verb, event, is_stored, when, first).await
}

/// Returns the event of a request: a CloudEvent, or a body as it is. What the URL says counts for
/// more than what a CloudEvent says.
fn event(
    headers: &HeaderMap,
    body: Bytes,
    subject: Option<Id>,
    event_type: Option<EventType>,
) -> Result<Event, Problem> {
    let found = if payload::media_type(headers) == STRUCTURED {
        CloudEvent::of_json(&body).map_err(|why| Problem::bad("body", why))?
    } else if let Some(attributes) = BinaryMode::of_headers(headers)? {
        CloudEvent {
            subject: attributes.subject,
            event_type: attributes.event_type,
            payload: payload::of_body(headers, body)?,
        }
    } else if let Some(subject) = subject {
        return Ok(Event {
            subject,
            event_type,
            payload: payload::of_body(headers, body)?,
        });
    } else {
        return Err(Problem::bad("body", "it is not a CloudEvent"));
    };
    let found = CloudEvent {
        subject: subject.or(found.subject),
        event_type: event_type.unwrap_or(found.event_type),
        ..found
    };
    found.into_event().map_err(|why| Problem::bad("body", why))
}

/// Returns the digest of what a request publishes.
fn request_digest(uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Digest {
    let mut request = Fingerprinting::new(&target(uri), headers);
    request.update(body);
    request.finish()
}

/// Returns what a request publishes to, without what says how it is answered.
pub(crate) fn target(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default().split('&');
    let says_how = |pair: &str| pair.starts_with("receipt=") || pair.starts_with("receipts=");
    let query = query.filter(|pair| !pair.is_empty() && !says_how(pair));
    let mut target = uri.path().to_owned();
    for pair in query {
        target.push('&');
        target.push_str(pair);
    }
    target
}

/// Returns whether the history is to store an event: `?history=false` keeps it out.
pub(crate) fn is_stored(query: &Query<'_>) -> Result<bool, Problem> {
    let words = [("true", true), ("false", false)];
    Ok(query.word("history", &words)?.unwrap_or(true))
}

/// `POST /demo/v1/publish/{subject}?data=…`: an event of the demo page is a text in the query.
pub(crate) async fn of_page(State(api): State<Shared>, request: Request) -> Answered {
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
    let event = Event {
        subject,
        event_type,
        payload: Payload::text(data.to_owned().into()),
    };
    let (verb, when) = (Verb::Publish, When::Full);
    match &api.replicated {
        None => deliver(&api, verb, event, true, when, None).await,
        Some(replicated) => {
            replicated::publish::deliver(&api, replicated, verb, event, true, when, None).await
        }
    }
}

fn event_type(query: &Query<'_>) -> Result<Option<EventType>, Problem> {
    let event_type = query.get("type").map(str::parse).transpose();
    event_type.map_err(|error| Problem::bad("query parameter \"type\"", error))
}

async fn deliver(
    api: &Api,
    verb: Verb,
    event: Event,
    keeps: bool,
    when: When,
    mut first: Option<(First, Digest)>,
) -> Answered {
    let _pending = api.published.pending();
    let begun = Instant::now();
    let router = api.router();
    let tally = Tally::new();
    let note = first
        .as_ref()
        .map(|(first, request)| first.note(Some(*request)));
    let note = note.unwrap_or_default();
    let accepted = router.deliver_noted(event, verb.reach(), keeps, &note, &tally);
    api.published.one(verb, accepted.audience.online);
    let early = || Receipt::early(router, accepted, tally.counts(), tally.unstored()).to_json();
    if let Some((first, _)) = &mut first {
        first.published(accepted.position);
    }
    let is_stored = stored(&tally).await.is_some();
    if is_stored && let Some((first, request)) = &mut first {
        // What another request gets if this one ends before its receipt comes.
        first.answer(*request, StatusCode::ACCEPTED, early());
    }
    let receipt = match when {
        _ if !is_stored => None,
        When::Early => Some((StatusCode::ACCEPTED, early())),
        When::Full => settled(&tally).await.map(|counts| {
            let receipt = Receipt::full(router, accepted, counts, tally.unstored());
            (StatusCode::OK, receipt.to_json())
        }),
    };
    match receipt {
        Some((status, receipt)) => {
            api.published.latency.record_shared(begun.elapsed());
            if let Some((first, request)) = &mut first {
                first.answer(*request, status, receipt.clone());
            }
            Ok(answer(status, receipt.into()))
        }
        None => {
            let id = router.event_id(accepted.position);
            let detail = format!("event {id}: {}", unsettled(&tally));
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, detail))
        }
    }
}
