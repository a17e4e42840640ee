//! The history: its head as a cursor, and the stored events of a subject.
//!
//! Must never hold the history for longer than a page takes to copy.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use graph::{Id, Key};
use history::{Cursor, Entry, Followed, Gap, History, Reach};
use router::{ContentType, Mailboxes, Recorder, Router};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::api::Shared;
use crate::caller::Caller;
use crate::limits::{HISTORY_PAGE_DEFAULT, HISTORY_PAGE_MAX};
use crate::problem::{Answered, Problem, ProblemType, in_json};
use crate::query::{Query, id_at};

/// `GET /v1/cursor`: where a client begins that loads its state now and connects then.
pub(crate) async fn cursor(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let router = api.router();
    let head = router.head().ok_or_else(no_history)?;
    let cursor = Cursor::complete(router.epoch(), head).to_string();
    in_json(json!({ "cursor": cursor }))
}

/// A page of the history of a subject.
#[derive(Serialize)]
struct Page {
    events: Vec<Event>,
    /// Where the next page begins.
    cursor: String,
    /// Whether there are more events now.
    more: bool,
    /// Why events after the caller's cursor may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    reset: Option<&'static str>,
}

/// A stored event.
#[derive(Serialize)]
struct Event {
    id: String,
    subject: Id,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    event_type: Option<String>,
    data: Data,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'static str>,
    /// Seconds since 1970 when it was published.
    time: u32,
    /// It was sent to the sessions of its subject alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sent: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data {
    Text(String),
    Json(Box<RawValue>),
}

/// `GET /v1/history/{subject}`
pub(crate) async fn of_subject(State(api): State<Shared>, request: Request) -> Answered {
    let subject = id_at(request.uri(), 2)?;
    Caller::of(&request).check_id(&subject)?;
    let query = Query::parse(request.uri(), &["after", "limit"])?;
    let limit = query.count("limit", HISTORY_PAGE_DEFAULT, HISTORY_PAGE_MAX)?;
    let router = api.router();
    let recorder = router.recorder().ok_or_else(no_history)?;
    let page = page(
        router,
        recorder,
        &subject,
        query.get("after"),
        (limit, api.limits.history_page_bytes_max),
    );
    in_json(page)
}

fn page<M: Mailboxes>(
    router: &Router<M>,
    recorder: &Recorder,
    subject: &Id,
    after: Option<&str>,
    most: (usize, usize),
) -> Page {
    // Held, so that the key is not given to another id before its events are read.
    let key = router.graph().hold_known(subject);
    let page = recorder.read(|history| {
        let (after, reset) = start(history, router.epoch(), after);
        let mut page = Page {
            events: Vec::new(),
            cursor: Cursor::complete(router.epoch(), history.head()).to_string(),
            more: false,
            reset,
        };
        if let Some(key) = key {
            page.fill(history, router.epoch(), subject, key, after, most);
        }
        page
    });
    if let Some(key) = key {
        router.graph().release(key);
    }
    page
}

/// Returns the position after which a page begins, and why events before it may be missing. What a
/// client gets that comes back with this cursor: never an error.
fn start(history: &History, epoch: &str, after: Option<&str>) -> (u64, Option<&'static str>) {
    let Some(text) = after else {
        return (0, None);
    };
    let Ok(cursor) = Cursor::try_from(text) else {
        return (0, Some("unknown"));
    };
    match history.gap(epoch, cursor) {
        None => (cursor.complete, None),
        Some(Gap::Restart) => (0, Some("restart")),
        Some(Gap::Expired) => (0, Some("expired")),
        Some(Gap::Unknown) => (0, Some("unknown")),
    }
}

impl Page {
    fn fill(
        &mut self,
        history: &History,
        epoch: &str,
        subject: &Id,
        key: Key,
        after: u64,
        (limit, bytes_max): (usize, usize),
    ) {
        let followed = Followed {
            key,
            after,
            is_own: true,
        };
        let mut found = Vec::new();
        self.more = history.missed([followed], u64::MAX, limit, &mut found);
        let mut bytes = 0;
        for missed in found {
            let Some(stored) = history.get(missed.place) else {
                continue;
            };
            bytes += stored.entry.payload.len();
            if bytes > bytes_max && !self.events.is_empty() {
                self.more = true;
                break;
            }
            let event = Event::new(epoch, subject, &stored.entry, stored.seconds);
            self.events.push(event);
        }
        if self.more
            && let Some(last) = self.events.last()
        {
            self.cursor.clone_from(&last.id);
        }
    }
}

impl Event {
    fn new(epoch: &str, subject: &Id, entry: &Entry<'_>, seconds: u32) -> Self {
        let (data, encoding) = data(entry);
        Self {
            id: Cursor::complete(epoch, entry.position).to_string(),
            subject: subject.clone(),
            event_type: (!entry.event_type.is_empty()).then(|| entry.event_type.to_owned()),
            data,
            encoding,
            time: seconds,
            sent: entry.reach == Reach::Subject,
        }
    }
}

fn data(entry: &Entry<'_>) -> (Data, Option<&'static str>) {
    let text = std::str::from_utf8(entry.payload);
    match (ContentType::of_tag(entry.tag), text) {
        (Some(ContentType::Json), Ok(json)) => {
            if let Ok(value) = RawValue::from_string(json.to_owned()) {
                return (Data::Json(value), None);
            }
        }
        (Some(ContentType::Text), Ok(text)) => return (Data::Text(text.to_owned()), None),
        _ => {}
    }
    (Data::Text(STANDARD.encode(entry.payload)), Some("base64"))
}

fn no_history() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "there is no history; start the server with --history-bytes",
    )
    .of_type(ProblemType::NoHistory)
}
