//! Answers to publish requests by their `Idempotency-Key`.
//!
//! A key belongs to the token that used it. It is kept as long as its event is in the history, also
//! over a restart if the history is on disk. Must never publish twice for one key, or give a token
//! the answer of another one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use history::History;
use parking_lot::Mutex;
use router::{Accepted, Counts, Recorder, Router};
use server::Post;

use crate::caller::Caller;
use crate::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use crate::payload::media_type;
use crate::problem::{Answered, Problem, ProblemType};
use crate::receipt::Receipt;
use crate::shared::piece::Digest;

const HEADER: &str = "idempotency-key";

/// Marks an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Keys and their answers. Owned by the API, for its whole life.
#[derive(Debug)]
pub(crate) struct Keys(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// Most keys that are kept.
    max: usize,
    entries: HashMap<Name, Entry>,
    /// Keys whose requests have ended, by the position of their last event, oldest first.
    ended: VecDeque<(u64, Name)>,
}

/// Token and key. The name of a token has no slash.
type Name = Arc<str>;

#[derive(Debug)]
enum Entry {
    /// The first request has not been answered yet.
    Pending,
    /// The first request was answered with this.
    Answered(Stored),
    /// The first request has published a part of its events.
    Partial,
    /// The first request was a batch that has published all or a part of its events before a
    /// restart.
    Restarted,
}

/// Answer to the first request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// What the request publishes.
    pub(crate) request: Digest,
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Idempotency key that the history on disk has kept: [`crate::Config`] hands it to the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredKey {
    /// The last event that was published with the key, and the audience of the first one.
    pub accepted: Accepted,
    /// Bytes that were stored with the event.
    pub note: Box<[u8]>,
}

/// State of a request with a key.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is the first one, and must publish.
    First(First),
    /// It repeats one that was answered. The caller compares their content.
    Again(Stored),
}

/// The first request with a key. When it is dropped, the key is kept if it has published something.
#[derive(Debug)]
pub(crate) struct First {
    keys: Arc<Keys>,
    name: Name,
    /// Position of the last event that it has published.
    position: Option<u64>,
    answer: Option<Stored>,
}

impl Keys {
    /// Returns a place for at most `max` keys.
    pub(crate) fn new(max: usize) -> Self {
        Self(Mutex::new(Inner {
            max,
            entries: HashMap::new(),
            ended: VecDeque::new(),
        }))
    }

    /// Adds the key of a request that was published before a restart, from the note that was stored
    /// beside its events. The latest note of a key counts. To be called in the order of the notes.
    pub(crate) fn restore(&self, router: &Router<Post>, restored: &RestoredKey) {
        let Some((request, name)) = parse_note(&restored.note) else {
            return;
        };
        let entry = match request {
            Some(request) => Entry::Answered(Stored {
                request,
                status: StatusCode::ACCEPTED,
                body: Receipt::early(router, restored.accepted, Counts::default(), 0)
                    .to_json()
                    .into(),
            }),
            None => Entry::Restarted,
        };
        let name: Name = name.into();
        let mut inner = self.0.lock();
        if inner.entries.insert(Arc::clone(&name), entry).is_some() {
            inner.ended.retain(|(_, known)| *known != name);
        }
        let position = restored.accepted.position;
        inner.ended.push_back((position, name));
        let left = router.recorder().map_or(0, |it| it.read(gone));
        inner.forget(left);
    }

    /// Begins a request; `None` if it has no key.
    pub(crate) fn begin(
        self: &Arc<Self>,
        headers: &HeaderMap,
        caller: &Caller,
        router: &Router<Post>,
    ) -> Result<Option<Begun>, Problem> {
        let Some((name, recorder)) = name(headers, caller, router)? else {
            return Ok(None);
        };
        let left = recorder.read(gone);
        let mut inner = self.0.lock();
        inner.forget(left);
        match inner.entries.get(&name) {
            None => {}
            Some(Entry::Answered(stored)) => return Ok(Some(Begun::Again(stored.clone()))),
            Some(Entry::Pending) => {
                return Err(Problem::conflict(
                    "a request with this Idempotency-Key is under way; try again in a second",
                )
                .of_type(ProblemType::KeyInUse));
            }
            Some(Entry::Restarted) => {
                return Err(Problem::conflict(
                    "the batch with this Idempotency-Key was published, as a whole or in part, \
                     before the server was restarted, and its answer is lost; look for its events \
                     in the history, and publish what is missing with another key",
                )
                .of_type(ProblemType::BatchBrokenOff));
            }
            Some(Entry::Partial) => {
                return Err(Problem::conflict(
                    "the first request with this Idempotency-Key ended before its last event; \
                     publish what is missing with another key",
                )
                .of_type(ProblemType::BatchBrokenOff));
            }
        }
        inner.entries.insert(Arc::clone(&name), Entry::Pending);
        Ok(Some(Begun::First(First {
            keys: Arc::clone(self),
            name,
            position: None,
            answer: None,
        })))
    }
}

/// Returns the position up to which events have left a history. One that could not be stored takes
/// no earlier one with it.
fn gone(history: &History) -> u64 {
    history.left().min(history.cleared())
}

impl Inner {
    /// Forgets the keys of events that have left the history, and the oldest beyond the bound.
    fn forget(&mut self, left: u64) {
        while let Some((position, _)) = self.ended.front()
            && (*position <= left || self.ended.len() >= self.max)
        {
            if let Some((_, name)) = self.ended.pop_front() {
                self.entries.remove(&name);
            }
        }
    }
}

impl First {
    /// Returns the note that is stored beside the events, by which a later run knows the key.
    /// `request` is what the request publishes; `None` for a part of a batch.
    pub(crate) fn note(&self, request: Option<Digest>) -> Vec<u8> {
        let mut note = vec![u8::from(request.is_some())];
        note.extend(request.map_or([0; 32], |request| request.0));
        note.extend(self.name.as_bytes());
        note
    }

    /// Notes that events up to a position are published.
    pub(crate) const fn published(&mut self, position: u64) {
        self.position = Some(position);
    }

    /// Sets the answer that other requests with the key get. A later one replaces it.
    pub(crate) fn answer(&mut self, request: Digest, status: StatusCode, body: Vec<u8>) {
        let body = body.into();
        self.answer = Some(Stored {
            request,
            status,
            body,
        });
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let mut inner = self.keys.0.lock();
        let entry = match (self.answer.take(), self.position) {
            (Some(stored), _) => Entry::Answered(stored),
            (None, Some(_)) => Entry::Partial,
            // Nothing was published: the next request with the key is the first one.
            (None, None) => {
                inner.entries.remove(&self.name);
                return;
            }
        };
        let position = self.position.unwrap_or_default();
        inner.entries.insert(Arc::clone(&self.name), entry);
        inner.ended.push_back((position, Arc::clone(&self.name)));
    }
}

/// Reads a note: what the request has published, if that was one event, and the name of the key.
fn parse_note(note: &[u8]) -> Option<(Option<Digest>, &str)> {
    let (&kind, rest) = note.split_first()?;
    let (&request, name) = rest.split_first_chunk()?;
    let request = match kind {
        0 => None,
        1 => Some(Digest(request)),
        _ => return None,
    };
    Some((request, std::str::from_utf8(name).ok()?))
}

impl Stored {
    /// Returns the answer again, if the request is the same.
    pub(crate) fn again(self, request: Digest) -> Answered {
        if self.request != request {
            return Err(of_another());
        }
        Ok(again(self.status, self.body))
    }
}

/// Returns the answer to a request whose key was used with another content.
pub(crate) fn of_another() -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "the first request with this Idempotency-Key published something else; use a key of its \
         own for each request",
    )
}

/// Returns an answer that was given before.
pub(crate) fn again(status: StatusCode, body: Bytes) -> Response {
    let mut response = answer(status, body);
    let again = HeaderValue::from_static("true");
    response.headers_mut().insert(REPLAYED, again);
    response
}

/// Returns the name of a request's key, and the history that it needs; `None` if it has no key.
fn name<'a>(
    headers: &HeaderMap,
    caller: &Caller,
    router: &'a Router<Post>,
) -> Result<Option<(Name, &'a Recorder)>, Problem> {
    let Some(key) = key(headers)? else {
        return Ok(None);
    };
    let Some(recorder) = router.recorder() else {
        return Err(Problem::bad(
            "header Idempotency-Key",
            "keys are kept as long as their events are in the history, and there is no history; \
             start the server with --history-bytes, or send no key",
        ));
    };
    let token = caller.token().map_or("", |token| &token.name);
    Ok(Some((format!("{token}/{key}").into(), recorder)))
}

/// Returns the name of a request's key for all nodes; `None` if it has no key.
pub(crate) fn shared_name(
    headers: &HeaderMap,
    caller: &Caller,
    router: &Router<Post>,
) -> Result<Option<Digest>, Problem> {
    let name = name(headers, caller, router)?;
    Ok(name.map(|(name, _)| {
        let mut context = Context::new(&SHA256);
        context.update(name.as_bytes());
        Digest::of(context)
    }))
}

/// Returns an answer in JSON.
pub(crate) fn answer(status: StatusCode, body: Bytes) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// Digest of a request that is being read.
#[derive(Clone)]
pub(crate) struct Fingerprinting(Context);

impl Fingerprinting {
    /// Begins with what says how the body is published.
    pub(crate) fn new(target: &str, headers: &HeaderMap) -> Self {
        let mut context = Context::new(&SHA256);
        for part in [target, &media_type(headers)] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        for (name, value) in headers {
            // CloudEvents in binary mode have attributes in header fields.
            if name.as_str().starts_with("ce-") {
                context.update(name.as_str().as_bytes());
                context.update(value.as_bytes());
            }
        }
        Self(context)
    }

    /// Adds a piece of the body.
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest::of(self.0)
    }
}

impl std::fmt::Debug for Fingerprinting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprinting")
    }
}

/// Returns the key of a request, if it has one.
fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let key = value.to_str().ok().filter(|key| {
        let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) && is_visible
    });
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key)),
        _ => Err(Problem::bad(
            "header Idempotency-Key",
            format!(
                "expected one value of 1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable ASCII \
                 characters without spaces, for example a UUID"
            ),
        )),
    }
}
