//! Writer of answers.

use std::sync::Arc;

use reactor::{Driver, SlotKey};
use router::WorkerId;
use wire::head::{Body, HeadError, Method, Request, Version};
use wire::notice::ResetReason;
use wire::response::{self, Cors};
use wire::status::Status;
use wire::transport::{Framing, Transport};
use wire::websocket::Accept;

use super::content::{Answer, EVENT_STREAM, Fields};
use super::cors::cors;
use super::date::DateField;
use super::page::page_fields;
use crate::limits::REFUSED_RETRY_SPREAD;
use crate::refusal::{come_back, delay, wants_event_stream};
use crate::settings::LiveSettings;
use crate::shared::Shared;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Phase};

const TOO_MANY_CONNECTIONS: &str = "too many connections; try again later";
const NO_ROOM: &str = "the server has no room for requests that arrive in parts; try again later";

/// Writer of answers. One for each worker.
pub(crate) struct Responder {
    pub(super) shared: Arc<Shared>,
    pub(super) worker: WorkerId,
    /// Number of streams refused so far, which spreads their reconnect delays.
    pub(super) refused: u32,
    pub(super) date: DateField,
}

/// Form of an answer.
pub(super) struct Manner<'a> {
    pub(super) head_only: bool,
    pub(super) keep_alive: bool,
    pub(super) version: Version,
    pub(super) cors: Cors<'a>,
    /// Why the connection ends with the answer, if it does not end for the sake of the answer.
    pub(super) end: Option<CloseReason>,
}

impl Responder {
    pub(crate) fn new(worker: WorkerId, shared: Arc<Shared>) -> Self {
        Self {
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
        let cors = cors(&table.live.cors_origins, request.origin);
        self.answer_as(table, key, request, answer, bodiless, cors);
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
            true => self.refusal_of_stream(&table.live, request, TOO_MANY_CONNECTIONS),
            false => Answer::busy(TOO_MANY_CONNECTIONS),
        };
        let cors = cors(&table.live.cors_origins, request.origin);
        self.answer_as(table, key, request, &answer, false, cors);
    }

    /// Answers a request. The connection continues if `may_continue`, the client and the server
    /// allow it.
    pub(super) fn answer_as<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        answer: &Answer,
        may_continue: bool,
        cors: Cors<'_>,
    ) {
        let manner = Manner {
            head_only: request.method == Method::Head,
            keep_alive: may_continue && request.keep_alive && !self.shared.takes_no_streams(),
            version: request.version,
            cors,
            end: None,
        };
        let bytes = Self::write(&mut self.date, table, key, answer, &manner);
        self.note(table, key, Some(request), answer.status, bytes);
    }

    /// Makes the answer to a request for a stream of events that there is no room for.
    pub(crate) fn refusal_of_stream(
        &mut self,
        live: &LiveSettings,
        request: &Request<'_>,
        reason: &'static str,
    ) -> Answer {
        if !wants_event_stream(request) {
            return Answer::busy(reason);
        }
        let spread = match self.shared.is_draining() {
            true => live.drain_spread,
            false => REFUSED_RETRY_SPREAD,
        };
        self.refused = self.refused.wrapping_add(1);
        come_back(reason, delay(self.worker, self.refused, spread))
    }

    /// Rejects a head that took too long.
    pub(crate) fn reject_late<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        let reason = "the request's head did not arrive in time; send it at once";
        self.answer_last(table, key, &Answer::error(Status::REQUEST_TIMEOUT, reason));
    }

    /// Refuses a connection whose input cannot be kept: with an answer where one can be given.
    pub(crate) fn refuse_unread<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) {
        match table.takes_answer(key) {
            true => self.answer_last(table, key, &Answer::busy(NO_ROOM)),
            false => table.close(key, CloseReason::Rejected),
        }
    }

    /// Answers a probe. A connection that is not counted ends with it.
    pub(crate) fn answer_probe<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        answer: &Answer,
        is_admitted: bool,
    ) {
        self.answer_as(table, key, request, answer, is_admitted, Cors::default());
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
    pub(super) fn write<D: Driver>(
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
        let cors = cors(&table.live.cors_origins, request.origin);
        let date = self.date.at(table.clock.unix_seconds);
        response::stream_head(transport, framing, last_event_id, date, cors, out);
    }
}

/// Fields of the answer to a poll; the last one only with a reset.
const fn poll_fields(cursor: &str, reset: Option<ResetReason>) -> [(&str, &str); 3] {
    [
        ("Cache-Control", "private, no-store"),
        ("Encke-Cursor", cursor),
        (
            "Encke-Reset",
            match reset {
                Some(reason) => reason.text(),
                None => "",
            },
        ),
    ]
}
