//! Requests to answers or streams: the handler that the ingress calls.

use std::net::IpAddr;
use std::sync::Arc;

use auth::TokenError;
use reactor::{Driver, SlotKey};
use wire::frame::{self, Position};
use wire::head::{Body, HeadError, Method, Request};
use wire::status::Status;
use wire::transport::{Framing, Transport};

use super::checked::Checked;
use super::login::Refused;
use super::route::{Health, Route};
use super::sessions::Sessions;
use super::stream_request::{self, Form};
use super::websocket;
use crate::admission::Admission;
use crate::answer::{Answer, Responder};
use crate::client_address;
use crate::demo::is_direct;
use crate::frames::push;
use crate::identity::{Denial, Grant, UNDECIDED};
use crate::ingress::RequestHandler;
use crate::open_session::{Marks, Session};
use crate::refusal::{AwaitedRequests, NO_STREAMS, usual_delay};
use crate::replay::{Begun, Resume};
use crate::settings::LiveSettings;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Phase};

/// Stage that answers requests: sessions, and the writer of their answers.
pub(crate) struct Requests<'a> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) responder: &'a mut Responder,
    pub(crate) admission: &'a mut Admission,
    pub(crate) awaited_requests: &'a mut AwaitedRequests,
}

impl<D: Driver> RequestHandler<D> for Requests<'_> {
    fn admit_client(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, client: IpAddr) {
        self.admit_proxied(table, key, client);
    }

    fn handle(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, request: &Request<'_>) {
        let Self {
            sessions,
            responder,
            admission,
            ..
        } = self;
        let is_admitted = table.is_admitted(key);
        if let Route::Health(health) = Route::of(request.path)
            && table.live.health
            && let Some(answer) = sessions.health(health, request)
        {
            // Of any name, and beyond a limit: a full server is not one to be restarted.
            return responder.answer_probe(table, key, request, &answer, is_admitted);
        }
        if !is_admitted {
            let route = Route::of(request.path);
            let is_for_events = matches!(route, Route::Stream(Transport::Sse, _));
            return responder.refuse_request(table, key, request, is_for_events);
        }
        if !table.live.allows_host(request.host) {
            return responder.answer(table, key, request, &Answer::misdirected());
        }
        let shared = &sessions.shared;
        let route = Route::of(request.path);
        let answer = match (route, request.method) {
            (_, Method::Connect | Method::Other) => {
                Answer::error(Status::NOT_IMPLEMENTED, "unknown method; use GET")
            }
            (Route::Health(_), _) if table.live.health => Answer::method_not_allowed("GET, HEAD"),
            (Route::Unknown | Route::Health(_), _) => Answer::error(
                Status::NOT_FOUND,
                "unknown path; streams are at /events/{id}, /stream/{id}, /test/{id} and \
                 /ws/{id}, polls at /poll/{id}",
            ),
            (_, Method::Options) => Answer::preflight(),
            (_, Method::Post | Method::Put | Method::Delete) | (Route::Server, _) => {
                Answer::method_not_allowed("GET, HEAD, OPTIONS")
            }
            _ if request.body != Body::None && request.body != Body::Sized(0) => Answer::error(
                Status::CONTENT_TOO_LARGE,
                "requests to this listener must not have a body; use the control listener to \
                 publish",
            ),
            (Route::Page | Route::Client | Route::AsyncApi, _) if !table.live.page => {
                Answer::no_page()
            }
            (Route::Client, _) => Answer::client(),
            (Route::AsyncApi, _) => Answer::asyncapi(),
            (Route::Page, _) => match shared.demo.get() {
                Some(demo) if is_direct(request) => demo.answer(shared.presence.is_some()),
                _ => Answer::page(shared.presence.is_some()),
            },
            (Route::Poll(segment), _) => match self.poll(table, key, request, segment) {
                Some(answer) => return self.responder.answer(table, key, request, &answer),
                None => return,
            },
            (Route::Stream(transport, segment), method) => {
                let is_presence_kept = sessions.presence().is_some();
                let form = match Form::of(table, key, request, transport, is_presence_kept) {
                    // Whoever may not open a WebSocket learns nothing of identities.
                    Err(answer) if transport == Transport::WebSocket => {
                        return responder.answer(table, key, request, &answer);
                    }
                    form => form,
                };
                let authorized = sessions.authorize(table, key, request, segment);
                match authorized.map(|grant| (grant, form)) {
                    Ok((_, Err(answer))) => answer,
                    Ok((grant, Ok(form))) if method == Method::Get => {
                        let name = transport.name();
                        match sessions.check_login(table, key, request, &grant, name) {
                            Ok(Checked::Waits) => return,
                            Ok(Checked::Accepted) => {
                                match admit_client(admission, table, key, request) {
                                    Ok(()) => {
                                        return sessions
                                            .open(table, responder, key, request, &form, &grant);
                                    }
                                    Err(limit) => {
                                        table.stats.add(limit, 1);
                                        let reason = "too many connections; try again later";
                                        refusal(responder, &table.live, transport, request, reason)
                                    }
                                }
                            }
                            Err(denial) => {
                                table.stats.denied(denial.metric());
                                match denial {
                                    Denial::Undecided => refusal(
                                        responder,
                                        &table.live,
                                        transport,
                                        request,
                                        UNDECIDED,
                                    ),
                                    denial => denial.answer_on(transport),
                                }
                            }
                        }
                    }
                    Ok(_) => {
                        return sessions.answer_head(table, responder, key, request, transport);
                    }
                    Err(Denial::Token(TokenError::UnknownKey(_)))
                        if sessions.await_keys(table, key) =>
                    {
                        return;
                    }
                    Err(denial) => {
                        table.stats.denied(denial.metric());
                        denial.answer_on(transport)
                    }
                }
            }
        };
        responder.answer(table, key, request, &answer);
    }

    fn receive(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, bytes: &mut [u8]) {
        websocket::receive(self.sessions, table, key, bytes);
    }

    fn await_record(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        let (now, limits) = (table.clock.now, table.limits);
        self.sessions.websockets.await_record(key, now, limits);
    }

    fn reject(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, error: HeadError) {
        self.responder.reject_head(table, key, error);
    }

    fn refuse_unread(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        table.stats.add(Metric::RefusedBuffers, 1);
        self.responder.refuse_unread(table, key);
    }

    fn reject_proxy_header(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        self.responder.reject_proxy_header(table, key);
    }
}

/// Makes the answer to a request for a stream that there is no room for.
fn refusal(
    responder: &mut Responder,
    live: &LiveSettings,
    transport: Transport,
    request: &Request<'_>,
    reason: &'static str,
) -> Answer {
    match transport {
        Transport::Sse => responder.refusal_of_stream(live, request, reason),
        Transport::Ndjson | Transport::Test | Transport::WebSocket => Answer::busy(reason),
    }
}

/// Counts the client of a request for a stream, where a trusted proxy sends it.
pub(super) fn admit_client<D: Driver>(
    admission: &mut Admission,
    table: &ConnectionTable<D>,
    key: SlotKey,
    request: &Request<'_>,
) -> Result<(), Metric> {
    if !table.live.counts_clients() {
        return Ok(());
    }
    let Some(origin) = table.origin(key) else {
        return Ok(());
    };
    let client = client_address::of_request(&table.live.policy, request, origin);
    admission.admit_client(&table.live, key.index, client)
}

impl Sessions {
    /// Returns the answer to a probe, unless it is one of another kind. It says no more than yes or
    /// no, as strangers may ask.
    fn health(&self, asked: Health, request: &Request<'_>) -> Option<Answer> {
        let is_probe = matches!(request.method, Method::Get | Method::Head)
            && matches!(request.body, Body::None | Body::Sized(0));
        if !is_probe {
            return None;
        }
        Some(match asked {
            Health::Ready if !self.shared.is_ready() => Answer::busy("not ready"),
            Health::Live | Health::Ready => Answer::healthy(),
        })
    }

    /// Logs a connection in as the ids of `grant` and begins its stream.
    fn open<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
        request: &Request<'_>,
        form: &Form,
        grant: &Grant<'_>,
    ) {
        let ids = &grant.ids;
        let slow = form.slow.unwrap_or(table.live.slow);
        let transport = form.encoding.transport();
        if self.shared.takes_no_streams() {
            let reason = NO_STREAMS;
            let answer = refusal(responder, &table.live, transport, request, reason);
            return responder.answer(table, key, request, &answer);
        }
        let start = match self.start(request, transport) {
            Ok(start) => start,
            Err(answer) => return responder.answer(table, key, request, &answer),
        };
        // Before the login: an edge is told from then on, and the snapshot is made after it.
        let presence = self.shared.presence.as_ref().filter(|_| form.presence);
        let presence = presence.map(Arc::clone);
        presence
            .iter()
            .for_each(|presence| presence.begin_session());
        let keys = match self.log_in_granted(table, key, grant, transport.name()) {
            Ok(keys) => keys,
            Err(refused) => {
                presence.iter().for_each(|presence| presence.end_session());
                let answer = match refused {
                    Refused::Full(reason) => {
                        refusal(responder, &table.live, transport, request, reason)
                    }
                    Refused::Denied(denial) => {
                        table.stats.denied(denial.metric());
                        denial.answer_on(transport)
                    }
                };
                return responder.answer(table, key, request, &answer);
            }
        };
        if transport == Transport::WebSocket
            && let Some(identity) = &grant.identity
        {
            self.websockets.identify(key.index, identity.clone());
            self.note_source(table, key, request);
        }
        let resume = start.map(|start| start.resume(&self.shared.router, &keys, table.limits));
        let framing = form.framing;
        let session = Session {
            key: keys[0],
            marks: Marks::new(presence.is_some()).with_several(keys.len() > 1),
            encoding: form.encoding,
            framing,
            slow,
        };
        if session.marks.has_several() {
            self.several.set(key.index, &keys);
        }
        if presence.is_some() {
            self.to_snapshot.push(key);
        }
        self.begin_access(table, key, request);
        table.stats.add(Metric::Logins, 1);
        table.stats.add(Metric::sessions(transport), 1);
        table.enter(key, Phase::Open(session));
        let retry = usual_delay(self.worker, key.index, table.live.retry);
        let mut out = table.scratch();
        let from = resume.as_ref().and_then(|resume| resume.from.as_deref());
        match &form.accept {
            Some(accept) => responder.switching_protocols(table, accept, from, &mut out),
            None => responder.stream_head(table, request, transport, framing, from, &mut out),
        }
        let epoch = self.shared.router.epoch();
        let sequence = resume.as_ref().and_then(Resume::welcome_position);
        let position = sequence.map(|sequence| Position { epoch, sequence });
        push(&mut out, |out| {
            frame::welcome(transport, ids, retry, position, out).range(framing)
        });
        if let Some(resume) = &resume {
            resume.push_reset(session, epoch, &mut out);
        }
        table.send(key, &out);
        table.put_back(out);
        if let Some(resume) = resume
            && resume.begin(table, &mut self.replays, key) == Begun::Awaited
        {
            self.websockets.await_cursor(key, table.clock.now);
        }
    }

    /// Answers HEAD like GET, without the stream (RFC 9110, section 9.3.2).
    fn answer_head<D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
        request: &Request<'_>,
        transport: Transport,
    ) {
        let framing = stream_request::framing(request.version);
        let mut out = table.scratch();
        responder.stream_head(table, request, transport, framing, None, &mut out);
        table.stats.add(Metric::RequestsAnswered, 1);
        let bytes = out.len() as u64;
        responder.note(table, key, Some(request), Status::OK, bytes);
        table.send(key, &out);
        table.put_back(out);
        // Without chunks, the head has said that the connection closes.
        if framing == Framing::Close || !request.keep_alive || self.shared.takes_no_streams() {
            table.end(key, CloseReason::Done);
        } else {
            table.enter(key, Phase::Head { partial: false });
        }
    }
}
