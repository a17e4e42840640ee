//! Sessions: requests to answers or streams.

use std::collections::HashMap;
use std::sync::Arc;

use graph::{Id, Key};
use reactor::{Driver, Mailbox, SlotKey};
use router::{SessionRef, WorkerId};
use wire::frame::{self, LAST_CHUNK};
use wire::head::{Body, HeadError, Method, Request, Version};
use wire::status::Status;
use wire::target;
use wire::transport::{Framing, Transport};

use crate::answer::{Answer, Responder};
use crate::demo::is_direct;
use crate::ingress::RequestHandler;
use crate::mail::Mail;
use crate::page_request;
use crate::settings::LiveSettings;
use crate::shared::Shared;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Ended, Phase, Session};

/// Sessions of a worker: what login needs beyond the connection table.
pub(crate) struct Sessions {
    worker: WorkerId,
    shared: Arc<Shared>,
    pub(crate) live: Arc<LiveSettings>,
    mailbox: Arc<Mailbox<Mail>>,
    /// All ids of a session that has several, by slot.
    several: HashMap<u32, Box<[Key]>>,
}

/// Resource that a path names.
enum Route<'a> {
    Page,
    Stream(Transport, &'a str),
    PageRequest,
    Server,
    Unknown,
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Self {
        const STREAMS: [(&str, Transport); 3] = [
            ("/events", Transport::Sse),
            ("/stream", Transport::Ndjson),
            ("/test", Transport::Test),
        ];
        match path {
            "/" => return Self::Page,
            "*" => return Self::Server,
            _ => {}
        }
        for (prefix, transport) in STREAMS {
            match path.strip_prefix(prefix) {
                Some("") => return Self::Stream(transport, ""),
                Some(rest) if rest.starts_with('/') => return Self::Stream(transport, &rest[1..]),
                _ => {}
            }
        }
        match path.strip_prefix("/relay") {
            Some(rest) if rest.starts_with('/') => Self::PageRequest,
            _ => Self::Unknown,
        }
    }
}

/// Stage that answers requests: sessions, and the writer of their answers.
pub(crate) struct Requests<'a> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) responder: &'a mut Responder,
}

impl<D: Driver> RequestHandler<D> for Requests<'_> {
    fn handle(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, request: &Request<'_>) {
        let Self {
            sessions,
            responder,
        } = self;
        let shared = &sessions.shared;
        let route = Route::of(request.path);
        if let (Route::PageRequest, true) = (&route, shared.settings.demo) {
            let demo = shared.demo.get();
            return page_request::relay(table, responder, &sessions.mailbox, demo, key, request);
        }
        let answer = match (route, request.method) {
            (_, Method::Other) => Answer::error(Status::NOT_IMPLEMENTED, "unknown method; use GET"),
            (Route::Unknown | Route::PageRequest, _) => Answer::error(
                Status::NOT_FOUND,
                "unknown path; streams are at /events/{id}, /stream/{id} and /test/{id}",
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
            (Route::Page, _) => match shared.demo.get() {
                Some(demo) if is_direct(request) => demo.answer(),
                _ => Answer::page(),
            },
            (Route::Stream(transport, segment), method) => match ids(segment, request.query) {
                Ok(ids) if method == Method::Get => {
                    return sessions.open(table, responder, key, request, transport, &ids);
                }
                Ok(_) => {
                    return sessions.answer_head(table, responder, key, request, transport);
                }
                Err(answer) => answer,
            },
        };
        responder.answer(table, key, request, &answer);
    }

    fn reject(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, error: HeadError) {
        self.responder.reject_head(table, key, error);
    }
}

fn ids(segment: &str, query: Option<&str>) -> Result<Vec<Id>, Answer> {
    let names = target::ids(segment, query)
        .map_err(|error| Answer::error(error.status(), error.reason()))?;
    let parse = |name: &str| {
        Id::parse(name).map_err(|error| Answer::error_owned(Status::BAD_REQUEST, error.to_string()))
    };
    names.iter().map(|name| parse(name)).collect()
}

const fn framing(version: Version) -> Framing {
    match version {
        Version::Http11 => Framing::Chunked,
        Version::Http10 => Framing::Close,
    }
}

const fn gauge(transport: Transport) -> Metric {
    match transport {
        Transport::Sse => Metric::SessionsSse,
        Transport::Ndjson => Metric::SessionsNdjson,
        Transport::Test => Metric::SessionsTest,
    }
}

impl Sessions {
    pub(crate) fn new(worker: WorkerId, shared: Arc<Shared>, mailbox: Arc<Mailbox<Mail>>) -> Self {
        Self {
            worker,
            live: Arc::clone(&shared.settings.live),
            shared,
            mailbox,
            several: HashMap::new(),
        }
    }

    /// Returns the name of the session in a slot.
    pub(crate) const fn name(&self, key: SlotKey) -> SessionRef {
        SessionRef::new(self.worker, key)
    }

    /// Returns the keys of the session in a slot.
    pub(crate) fn keys<'a>(&'a self, index: u32, session: &'a Session) -> &'a [Key] {
        match self.several.get(&index) {
            Some(keys) if session.several => keys,
            _ => std::slice::from_ref(&session.key),
        }
    }

    /// Logs a connection in as `ids` and begins its stream.
    fn open<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
        request: &Request<'_>,
        transport: Transport,
        ids: &[Id],
    ) {
        if self.shared.is_draining() {
            let answer = Answer::busy("the server is shutting down; try again in a moment");
            return responder.answer(table, key, request, &answer);
        }
        let keys = match self.log_in(key, ids) {
            Ok(keys) => keys,
            Err(answer) => return responder.answer(table, key, request, &answer),
        };
        let framing = framing(request.version);
        let session = Session {
            key: keys[0],
            several: keys.len() > 1,
            transport,
            framing,
        };
        if session.several {
            self.several.insert(key.index, keys.into_boxed_slice());
        }
        table.stats.add(Metric::Logins, 1);
        table.stats.add(gauge(transport), 1);
        table.enter(key, Phase::Open(session));
        let retry = self.live.retry.as_millis() as u64;
        let mut out = table.scratch();
        responder.stream_head(table, request, transport, framing, &mut out);
        // The welcome is encoded behind the head, with a gap where its chunk size is shorter than
        // the room for it.
        let head = out.len();
        let welcome = frame::welcome(transport, ids, retry, &mut out).range(framing);
        out.copy_within(welcome.clone(), head);
        out.truncate(head + welcome.len());
        table.send(key, &out);
        table.put_back(out);
    }

    /// Adds a session to the directory under all of `ids`, or under none.
    fn log_in(&self, key: SlotKey, ids: &[Id]) -> Result<Vec<Key>, Answer> {
        let name = self.name(key);
        let mut keys = Vec::with_capacity(ids.len());
        for id in ids {
            match self.shared.router.login(id, name) {
                Ok(id) => keys.push(id),
                Err(error) => {
                    for id in keys {
                        self.shared.router.logout(id, name);
                    }
                    tracing::error!(%error, "a session could not be opened");
                    return Err(Answer::busy("the server has too many ids; try again later"));
                }
            }
        }
        Ok(keys)
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
        let framing = framing(request.version);
        let mut out = table.scratch();
        responder.stream_head(table, request, transport, framing, &mut out);
        table.stats.add(Metric::RequestsAnswered, 1);
        table.send(key, &out);
        table.put_back(out);
        // Without chunks, the head has said that the connection closes.
        if framing == Framing::Close || !request.keep_alive || self.shared.is_draining() {
            table.end(key, CloseReason::Done);
        } else {
            table.enter(key, Phase::Head { partial: false });
        }
    }

    /// Removes a session from the directory.
    pub(crate) fn log_out<D: Driver>(&mut self, table: &ConnectionTable<D>, ended: &Ended) {
        let Ended {
            key,
            session,
            is_slow,
        } = ended;
        if *is_slow && let Some(id) = self.shared.router.graph().name(session.key) {
            table.stats.slow(id);
        }
        table.stats.take(gauge(session.transport), 1);
        let name = self.name(*key);
        for &id in self.keys(key.index, session) {
            self.shared.router.logout(id, name);
        }
        if session.several {
            self.several.remove(&key.index);
        }
    }
}

/// Ends the stream of a session after what it is owed and, where given, a last word that tells the
/// client after how many milliseconds to come back.
pub(crate) fn end_stream<D: Driver>(
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    retry: Option<u64>,
    reason: CloseReason,
) {
    let Some(Phase::Open(session)) = table.get(key).map(|connection| connection.phase) else {
        return;
    };
    let mut out = table.scratch();
    let mut start = 0;
    if let Some(retry) = retry {
        let farewell = frame::farewell(session.transport, retry, &mut out).range(session.framing);
        start = farewell.start;
        out.truncate(farewell.end);
    }
    if session.framing == Framing::Chunked {
        out.extend_from_slice(LAST_CHUNK);
    }
    table.send(key, &out[start..]);
    table.put_back(out);
    table.end(key, reason);
}
