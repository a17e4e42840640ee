//! Requests to answers or streams: the handler that the ingress calls.

use std::net::IpAddr;

use auth::TokenError;
use reactor::{Driver, SlotKey};
use wire::frame::{self, Position};
use wire::head::{Body, HeadError, Method, Request};
use wire::status::Status;
use wire::transport::{Framing, Transport};

use super::checked::Checked;
use super::login::Refused;
use super::reading::Reading;
use super::route::{Health, Route, UNKNOWN_PATH};
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
            (Route::Unknown | Route::Health(_), _) => {
                Answer::error(Status::NOT_FOUND, UNKNOWN_PATH)
            }
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
            (Route::Poll(segment), _) => {
                return self.read(table, key, request, segment, Reading::Poll);
            }
            (Route::Stream(transport, segment), _) => {
                return self.read(table, key, request, segment, Reading::Stream(transport));
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

impl Requests<'_> {
    /// Handles a request for events: opens a stream or a poll, or answers.
    fn read<'a, D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'a>,
        segment: &'a str,
        reading: Reading,
    ) {
        let done = match reading {
            Reading::Stream(transport) => self.stream(table, key, request, segment, transport),
            Reading::Poll => self.poll(table, key, request, segment),
        };
        if let Err(Some(answer)) = done {
            self.responder.answer(table, key, request, &answer);
        }
    }

    /// Handles a request for a stream. The error is the answer to one that opens none; `None` while
    /// it waits.
    fn stream<'a, D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'a>,
        segment: &'a str,
        transport: Transport,
    ) -> Result<(), Option<Answer>> {
        let is_presence_kept = self.sessions.presence().is_some();
        let form = Form::of(table, key, request, transport, is_presence_kept);
        // Whoever may not open a WebSocket learns nothing of identities.
        let form = match form {
            Err(answer) if transport == Transport::WebSocket => return Err(Some(answer)),
            form => form,
        };
        let reading = Reading::Stream(transport);
        let grant = self.authorize(table, key, request, segment, reading)?;
        let form = form?;
        if request.method == Method::Head {
            self.answer_head(table, key, request, transport);
            return Ok(());
        }
        self.let_in(table, key, request, &grant, reading)?;
        Ok(self.open(table, key, request, &form, &grant)?)
    }

    /// Returns the session that a request may open. The error is the answer to one that may open
    /// none; `None` while it waits for keys.
    pub(super) fn authorize<'a, D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'a>,
        segment: &'a str,
        reading: Reading,
    ) -> Result<Grant<'a>, Option<Answer>> {
        let authorized = self.sessions.authorize(table, key, request, segment);
        authorized.map_err(|denial| match denial {
            Denial::Token(TokenError::UnknownKey(_)) if self.sessions.await_keys(table, key) => {
                None
            }
            denial => Some(self.denied(table, request, reading, &denial)),
        })
    }

    /// Checks what else must be true before a client is logged in: the verdict of a program
    /// outside, limits, and whether streams are taken. The error is that of
    /// [`authorize`](Self::authorize).
    pub(super) fn let_in<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        grant: &Grant<'_>,
        reading: Reading,
    ) -> Result<(), Option<Answer>> {
        let checked = self
            .sessions
            .check_login(table, key, request, grant, reading);
        match checked {
            Ok(Checked::Accepted) => {}
            Ok(Checked::Waits) => return Err(None),
            Err(denial) => return Err(Some(self.denied(table, request, reading, &denial))),
        }
        let refused = match admit_client(self.admission, table, key, request) {
            Err(limit) => {
                table.stats.add(limit, 1);
                "too many connections; try again later"
            }
            Ok(()) if self.sessions.shared.takes_no_streams() => NO_STREAMS,
            Ok(()) => return Ok(()),
        };
        Err(Some(self.refusal(&table.live, reading, request, refused)))
    }

    /// Counts a denial, and makes the answer to it.
    fn denied<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        request: &Request<'_>,
        reading: Reading,
        denial: &Denial,
    ) -> Answer {
        table.stats.denied(denial.metric());
        match denial {
            Denial::Undecided => self.refusal(&table.live, reading, request, UNDECIDED),
            denial => reading.denied(denial),
        }
    }

    /// Makes the answer to a client that cannot be logged in.
    pub(super) fn refused<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        request: &Request<'_>,
        reading: Reading,
        refused: Refused,
    ) -> Answer {
        match refused {
            Refused::Full(reason) => self.refusal(&table.live, reading, request, reason),
            Refused::Denied(denial) => self.denied(table, request, reading, &denial),
        }
    }

    /// Makes the answer to a request that there is no room for.
    fn refusal(
        &mut self,
        live: &LiveSettings,
        reading: Reading,
        request: &Request<'_>,
        reason: &'static str,
    ) -> Answer {
        match reading {
            Reading::Stream(Transport::Sse) => {
                self.responder.refusal_of_stream(live, request, reason)
            }
            _ => Answer::busy(reason),
        }
    }

    /// Logs a connection in as the ids of `grant` and begins its stream. The error is the answer to
    /// a request that makes no sense or is refused.
    fn open<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        form: &Form,
        grant: &Grant<'_>,
    ) -> Result<(), Answer> {
        let transport = form.encoding.transport();
        let start = self.sessions.start(request, transport)?;
        // Before the login: an edge is told from then on, and the snapshot is made after it.
        let presence = self.sessions.shared.presence.as_ref();
        let presence = presence.filter(|_| form.presence).cloned();
        presence.iter().for_each(|it| it.begin_session());
        let reading = Reading::Stream(transport);
        let logged_in = self.sessions.log_in_granted(table, key, grant, reading);
        let keys = logged_in.map_err(|refused| {
            presence.iter().for_each(|it| it.end_session());
            self.refused(table, request, reading, refused)
        })?;
        let sessions = &mut *self.sessions;
        if transport == Transport::WebSocket
            && let Some(identity) = &grant.identity
        {
            sessions.websockets.identify(key.index, identity.clone());
            sessions.note_source(table, key, request);
        }
        let resume = start.map(|start| start.resume(&sessions.shared.router, &keys, table.limits));
        let framing = form.framing;
        let session = Session {
            key: keys[0],
            marks: Marks::new(presence.is_some()).with_several(keys.len() > 1),
            encoding: form.encoding,
            framing,
            slow: form.slow.unwrap_or(table.live.slow),
        };
        if session.marks.has_several() {
            sessions.several.set(key.index, &keys);
        }
        if presence.is_some() {
            sessions.to_snapshot.push(key);
        }
        sessions.begin_access(table, key, request);
        table.stats.add(Metric::Logins, 1);
        table.stats.add(Metric::sessions(transport), 1);
        table.enter(key, Phase::Open(session));
        let retry = usual_delay(sessions.worker, key.index, table.live.retry);
        let mut out = table.scratch();
        let from = resume.as_ref().and_then(|resume| resume.from.as_deref());
        let responder = &mut *self.responder;
        match &form.accept {
            Some(accept) => responder.switching_protocols(table, accept, from, &mut out),
            None => responder.stream_head(table, request, transport, framing, from, &mut out),
        }
        let epoch = sessions.shared.router.epoch();
        let position = resume.as_ref().and_then(Resume::welcome_position);
        let position = position.map(|position| Position { epoch, position });
        push(&mut out, |out| {
            frame::welcome(transport, &grant.ids, retry, position, out).range(framing)
        });
        if let Some(resume) = &resume {
            resume.push_reset(session, epoch, &mut out);
        }
        table.send(key, &out);
        table.put_back(out);
        if let Some(resume) = resume
            && resume.begin(table, &mut sessions.replays, key) == Begun::Awaited
        {
            sessions.websockets.await_cursor(key, table.clock.now);
        }
        Ok(())
    }

    /// Answers HEAD like GET, without the stream (RFC 9110, section 9.3.2).
    fn answer_head<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        transport: Transport,
    ) {
        let framing = stream_request::framing(request.version);
        let responder = &mut *self.responder;
        let mut out = table.scratch();
        responder.stream_head(table, request, transport, framing, None, &mut out);
        table.stats.add(Metric::RequestsAnswered, 1);
        let bytes = out.len() as u64;
        responder.note(table, key, Some(request), Status::OK, bytes);
        table.send(key, &out);
        table.put_back(out);
        // Without chunks, the head has said that the connection closes.
        let takes_no_streams = self.sessions.shared.takes_no_streams();
        if framing == Framing::Close || !request.keep_alive || takes_no_streams {
            table.end(key, CloseReason::Done);
        } else {
            table.enter(key, Phase::Head { partial: false });
        }
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
}
