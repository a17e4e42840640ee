//! Short answers: the page, errors, preflights.
//!
//! Owns how an answer is written and what follows it. Must never read a request's path.

/// Fields for pages of other origins.
mod cors;
/// The `Date` of answers.
mod date;
/// Answers to requests that have waited.
mod later;
/// Requests that do not arrive whole.
mod unread;
/// Entries of the access log.
mod logged;
/// Answers to load balancers.
mod probe;
/// The page at `/`.
mod page;

use std::borrow::Cow;
use std::sync::Arc;

use reactor::{Driver, SlotKey};
use router::WorkerId;
use wire::head::{Body, HeadError, Method, Request, Version};
use wire::notice::ResetReason;
use wire::response::{self, Cors};
use wire::status::Status;
use wire::transport::{Framing, Transport};
use wire::websocket::Accept;

use crate::limits::{REFUSED_RETRY_SPREAD, RETRY_AFTER_SECONDS};
use crate::refusal::{come_back, delay, wants_event_stream};
use crate::settings::LiveSettings;
use crate::shared::Shared;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Phase};
use cors::cors;
use date::DateField;
use later::poll_fields;

pub(crate) use later::RequestManner;
pub(crate) use logged::client_of;
use page::{PAGE_FIELDS, page_fields};
pub(crate) use page::{PAGE_POLICY, page_of};

/// The client for browsers, which the page uses.
const CLIENT: &str = include_str!("../../../clients/js/encke.js");

pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Media type of Server-Sent Events (WHATWG HTML, section 9.2.1).
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Media type of JavaScript (RFC 9239, section 6.1.1).
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

const TEXT: &str = "text/plain; charset=utf-8";

const TOO_MANY_CONNECTIONS: &str = "too many connections; try again later";

/// Fields of the answer to a CORS preflight request.
const PREFLIGHT_FIELDS: &[(&str, &str)] = &[
    ("Allow", "GET, HEAD, OPTIONS"),
    ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
    (
        "Access-Control-Allow-Headers",
        "Authorization, Last-Event-ID, Cache-Control, Accept",
    ),
    ("Access-Control-Max-Age", "86400"),
];

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    pub(crate) fields: Fields,
    pub(crate) body: Cow<'static, [u8]>,
}

/// Fields of an answer beyond those that every answer has.
#[derive(Debug, Clone)]
pub(crate) enum Fields {
    Fixed(&'static [(&'static str, &'static str)]),
    Allow(&'static str),
    /// `WWW-Authenticate` (RFC 9110, section 11.6.1).
    Challenge(String),
    /// Fields of the answer to a poll.
    Poll {
        /// The cursor of the next poll.
        cursor: String,
        /// Why events may be missing before these.
        reset: Option<ResetReason>,
    },
    /// Fields of the page, with this content security policy.
    Page(Arc<str>),
}

impl Answer {
    /// An error whose body is one line that says what was wrong.
    pub(crate) fn error(status: Status, reason: &'static str) -> Self {
        Self::error_owned(status, reason.to_owned())
    }

    pub(crate) fn error_owned(status: Status, mut reason: String) -> Self {
        reason.push('\n');
        Self {
            status,
            content_type: TEXT,
            fields: Fields::Fixed(&[]),
            body: Cow::Owned(reason.into_bytes()),
        }
    }

    pub(crate) fn busy(reason: &'static str) -> Self {
        let fields = Fields::Fixed(&[("Retry-After", RETRY_AFTER_SECONDS)]);
        Self {
            fields,
            ..Self::error(Status::SERVICE_UNAVAILABLE, reason)
        }
    }

    /// Refuses a request whose `Host` this server does not answer to. 421 says so more exactly than
    /// 403, which is about rights (RFC 9110, section 15.5.20).
    pub(crate) fn misdirected() -> Self {
        Self::error(
            Status::MISDIRECTED_REQUEST,
            "this server does not answer to the name in the Host header; use localhost or an IP \
             address, or start the server with --host NAME; a reverse proxy must send one of these \
             as Host",
        )
    }

    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        Self {
            fields: Fields::Allow(allow),
            ..Self::error(
                Status::METHOD_NOT_ALLOWED,
                "use GET to read a stream; use the control listener to publish",
            )
        }
    }

    pub(crate) const fn preflight() -> Self {
        Self {
            status: Status::NO_CONTENT,
            content_type: "",
            fields: Fields::Fixed(PREFLIGHT_FIELDS),
            body: Cow::Borrowed(&[]),
        }
    }

    /// An answer after which a browser's `EventSource` does not come back (WHATWG HTML, section
    /// 9.2.3).
    pub(crate) const fn stay_away() -> Self {
        Self {
            status: Status::NO_CONTENT,
            content_type: "",
            fields: Fields::Fixed(&[("Cache-Control", "no-store")]),
            body: Cow::Borrowed(&[]),
        }
    }

    pub(crate) fn no_page() -> Self {
        Self::error(
            Status::NOT_FOUND,
            "there is no page here: the server was started with --page=false; streams are at \
             /events/{id}, /stream/{id}, /test/{id} and /ws/{id}, polls at /poll/{id}",
        )
    }

    /// The page of a server that cannot publish for it.
    pub(crate) fn page(is_presence_kept: bool) -> Self {
        Self {
            status: Status::OK,
            content_type: HTML,
            fields: Fields::Fixed(PAGE_FIELDS),
            body: Cow::Borrowed(page_of(is_presence_kept).as_bytes()),
        }
    }

    pub(crate) const fn client() -> Self {
        Self {
            status: Status::OK,
            content_type: JAVASCRIPT,
            fields: Fields::Fixed(&[
                ("Cache-Control", "no-cache"),
                ("X-Content-Type-Options", "nosniff"),
            ]),
            body: Cow::Borrowed(CLIENT.as_bytes()),
        }
    }

    /// The description of the streams (AsyncAPI 3.0).
    pub(crate) fn asyncapi() -> Self {
        Self {
            content_type: "application/json",
            body: Cow::Borrowed(include_str!("asyncapi.json").as_bytes()),
            ..Self::client()
        }
    }
}

/// Writer of answers. One for each worker.
pub(crate) struct Responder {
    shared: Arc<Shared>,
    pub(crate) live: Arc<LiveSettings>,
    worker: WorkerId,
    /// Number of streams refused so far, which spreads their reconnect delays.
    refused: u32,
    date: DateField,
}

/// Form of an answer.
struct Manner<'a> {
    head_only: bool,
    keep_alive: bool,
    version: Version,
    cors: Cors<'a>,
    /// Why the connection ends with the answer, if it does not end for the sake of the answer.
    end: Option<CloseReason>,
}

impl Responder {
    pub(crate) fn new(worker: WorkerId, shared: Arc<Shared>) -> Self {
        Self {
            live: Arc::clone(&shared.settings.live),
            shared,
            worker,
            refused: 0,
            date: DateField::default(),
        }
    }

    /// Answers a request. The connection continues with the next one if both sides allow it.
    pub(crate) fn answer<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        answer: &Answer,
    ) {
        // A body is not read: what follows the head cannot be told from the next request.
        let bodiless = matches!(request.body, Body::None | Body::Sized(0));
        let manner = Manner {
            head_only: request.method == Method::Head,
            keep_alive: request.keep_alive && bodiless && !self.shared.takes_no_streams(),
            version: request.version,
            cors: cors(&self.live.cors_origins, request.origin),
            end: None,
        };
        let bytes = Self::write(&mut self.date, table, key, answer, &manner);
        self.note(table, key, Some(request), answer.status, bytes);
    }

    /// Rejects bytes that are not a request, and ends the connection, as the start of the next
    /// request is unknown.
    pub(crate) fn reject_head<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        error: HeadError,
    ) {
        self.answer_last(table, key, &Answer::error(error.status(), error.reason()));
    }

    /// Rejects a connection of a trusted proxy that does not begin with a PROXY header.
    pub(crate) fn reject_proxy_header<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) {
        let reason = "connections of this proxy must begin with a PROXY protocol header";
        self.answer_last(table, key, &Answer::error(Status::BAD_REQUEST, reason));
    }

    /// Refuses a connection beyond a limit whose request has not come.
    pub(crate) fn refuse<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        self.answer_last(table, key, &Answer::busy(TOO_MANY_CONNECTIONS));
    }

    /// Refuses a request of a connection beyond a limit.
    pub(crate) fn refuse_request<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        is_for_events: bool,
    ) {
        let answer = match is_for_events {
            true => self.refusal_of_stream(request, TOO_MANY_CONNECTIONS),
            false => Answer::busy(TOO_MANY_CONNECTIONS),
        };
        let manner = Manner {
            head_only: request.method == Method::Head,
            keep_alive: false,
            version: request.version,
            cors: cors(&self.live.cors_origins, request.origin),
            end: None,
        };
        let bytes = Self::write(&mut self.date, table, key, &answer, &manner);
        self.note(table, key, Some(request), answer.status, bytes);
    }

    /// Makes the answer to a request for a stream of events that there is no room for.
    pub(crate) fn refusal_of_stream(
        &mut self,
        request: &Request<'_>,
        reason: &'static str,
    ) -> Answer {
        if !wants_event_stream(request) {
            return Answer::busy(reason);
        }
        let spread = match self.shared.is_draining() {
            true => self.live.drain_spread,
            false => REFUSED_RETRY_SPREAD,
        };
        self.refused = self.refused.wrapping_add(1);
        come_back(reason, delay(self.worker, self.refused, spread))
    }

    /// Writes the last answer of a connection: the next request could not be found, or is not
    /// wanted.
    pub(crate) fn answer_last<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        answer: &Answer,
    ) {
        let manner = Manner {
            head_only: false,
            keep_alive: false,
            version: Version::Http11,
            cors: Cors::default(),
            end: None,
        };
        let bytes = Self::write(&mut self.date, table, key, answer, &manner);
        self.note(table, key, None, answer.status, bytes);
    }

    /// Writes an answer, and returns its bytes.
    fn write<D: Driver>(
        date: &mut DateField,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        answer: &Answer,
        manner: &Manner<'_>,
    ) -> u64 {
        // A whole answer that is a stream of events says that there is no room for one.
        let is_error = answer.status.code() >= 400 || answer.content_type == EVENT_STREAM;
        let (metric, reason) = match is_error {
            true => (Metric::RequestsRejected, CloseReason::Rejected),
            false => (Metric::RequestsAnswered, CloseReason::Done),
        };
        table.stats.add(metric, 1);
        let (allow, challenge, poll, page);
        let fields = match &answer.fields {
            Fields::Fixed(fields) => *fields,
            Fields::Allow(methods) => {
                allow = [("Allow", *methods)];
                &allow
            }
            Fields::Challenge(text) => {
                challenge = [
                    ("WWW-Authenticate", text.as_str()),
                    ("Cache-Control", "no-store"),
                ];
                &challenge
            }
            Fields::Poll { cursor, reset } => {
                poll = poll_fields(cursor, *reset);
                &poll[..if reset.is_some() { 3 } else { 2 }]
            }
            Fields::Page(policy) => {
                page = page_fields(policy);
                &page
            }
        };
        let mut out = table.scratch();
        response::full(
            answer.status,
            answer.content_type,
            fields,
            &answer.body,
            manner.head_only,
            manner.keep_alive,
            manner.version,
            date.at(table.clock.unix_seconds),
            manner.cors,
            &mut out,
        );
        let bytes = out.len() as u64;
        table.send(key, &out);
        table.put_back(out);
        if manner.keep_alive {
            table.enter(key, Phase::Head { partial: false });
        } else {
            table.end(key, manner.end.unwrap_or(reason));
        }
        bytes
    }

    /// Appends the head that switches a connection to WebSocket. `last_event_id` is the cursor that
    /// the stream continues from.
    pub(crate) fn switching_protocols<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        accept: &Accept,
        last_event_id: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let date = self.date.at(table.clock.unix_seconds);
        response::switching_protocols(accept, last_event_id, date, out);
    }

    /// Appends the head of a stream that answers `request`. `last_event_id` is the cursor that the
    /// stream continues from.
    pub(crate) fn stream_head<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        request: &Request<'_>,
        transport: Transport,
        framing: Framing,
        last_event_id: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let cors = cors(&self.live.cors_origins, request.origin);
        let date = self.date.at(table.clock.unix_seconds);
        response::stream_head(transport, framing, last_event_id, date, cors, out);
    }
}
