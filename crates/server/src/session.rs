//! Stage 3: requests to answers or sessions.

use std::collections::HashMap;

use graph::{Id, Key};
use reactor::Driver;
use reactor::SlotKey;
use wire::frame;
use wire::head::{Body, Method, Request, Version};
use wire::response;
use wire::status::Status;
use wire::target;
use wire::transport::{Framing, Transport};

use crate::answer::Answer;
use crate::clock::Tenths;
use crate::connection::{CloseReason, Phase, Session};
use crate::demo::is_direct;
use crate::stats::Metric;
use crate::worker::Worker;

/// What sessions own beyond their records.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// All ids of a session that has several, by slot.
    several: HashMap<u32, Box<[Key]>>,
}

impl Sessions {
    pub(crate) fn keys<'a>(&'a self, slot: u32, session: &'a Session) -> &'a [Key] {
        match self.several.get(&slot) {
            Some(keys) if session.several => keys,
            _ => std::slice::from_ref(&session.key),
        }
    }
}

/// What a path leads to.
enum Route<'a> {
    Page,
    Stream(Transport, &'a str),
    Relay,
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
            Some(rest) if rest.starts_with('/') => Self::Relay,
            _ => Self::Unknown,
        }
    }
}

impl<D: Driver> Worker<D> {
    pub(crate) fn on_request(&mut self, key: SlotKey, request: &Request<'_>) {
        let route = Route::of(request.path);
        if let (Route::Relay, true) = (&route, self.shared.settings.relay) {
            return self.on_relay(key, request);
        }
        let answer = match (route, request.method) {
            (_, Method::Other) => Answer::error(
                Status::NOT_IMPLEMENTED,
                "this method is not known here; use GET",
            ),
            (Route::Unknown | Route::Relay, _) => Answer::error(
                Status::NOT_FOUND,
                "nothing is here; streams are at /events/{id}, /stream/{id} and /test/{id}",
            ),
            (_, Method::Options) => Answer::preflight(),
            (_, Method::Post | Method::Put | Method::Delete) | (Route::Server, _) => {
                Answer::method_not_allowed("GET, HEAD, OPTIONS")
            }
            _ if request.body != Body::None && request.body != Body::Sized(0) => Answer::error(
                Status::CONTENT_TOO_LARGE,
                "no request may have a body here; publish on the control listener",
            ),
            (Route::Page, _) => match self.shared.demo.get() {
                Some(demo) if is_direct(request) => demo.answer(),
                _ => Answer::page(),
            },
            (Route::Stream(transport, segment), method) => {
                match Self::ids(segment, request.query) {
                    Ok(ids) if method == Method::Get => {
                        return self.log_in(key, request, transport, &ids);
                    }
                    Ok(_) => return self.answer_stream_head(key, request, transport),
                    Err(answer) => answer,
                }
            }
        };
        self.answer(key, request, &answer);
    }

    fn ids(segment: &str, query: Option<&str>) -> Result<Vec<Id>, Answer> {
        let names = target::ids(segment, query)
            .map_err(|error| Answer::error(error.status(), error.reason()))?;
        let parse = |name: &str| {
            Id::parse(name)
                .map_err(|error| Answer::error_owned(Status::BAD_REQUEST, error.to_string()))
        };
        names.iter().map(|name| parse(name)).collect()
    }

    fn log_in(&mut self, key: SlotKey, request: &Request<'_>, transport: Transport, ids: &[Id]) {
        if self.is_draining() {
            let answer = Answer::busy("this server is ending; come back in a moment");
            return self.answer(key, request, &answer);
        }
        let name = self.name(key);
        let mut keys = Vec::with_capacity(ids.len());
        for id in ids {
            match self.shared.router.login(id, name) {
                Ok(id) => keys.push(id),
                Err(error) => {
                    for id in keys {
                        self.shared.router.logout(id, name);
                    }
                    tracing::error!(%error, "a session could not log in");
                    let answer = Answer::busy("this server knows too many ids; try again later");
                    return self.answer(key, request, &answer);
                }
            }
        }
        let framing = Self::framing(request.version);
        let session = Session {
            key: keys[0],
            several: keys.len() > 1,
            transport,
            framing,
        };
        if session.several {
            self.sessions
                .several
                .insert(key.index, keys.into_boxed_slice());
        }
        self.stats.add(Metric::Logins, 1);
        self.stats.add(Self::gauge(transport), 1);
        let since = Tenths::of(self.clock.now);
        if let Some(connection) = self.connection(key) {
            connection.phase = Phase::Open(session);
            connection.since = since;
        }
        let retry = self.shared.settings.retry.as_millis() as u64;
        let mut out = self.egress.scratch();
        let cors = self.cors(request.origin);
        response::stream_head(transport, framing, self.clock.date(), cors, &mut out);
        // The welcome is encoded behind the head, with a gap where its chunk size is shorter than
        // the room for it.
        let head = out.len();
        let welcome = frame::welcome(transport, ids, retry, &mut out).range(framing);
        out.copy_within(welcome.clone(), head);
        out.truncate(head + welcome.len());
        self.write(key, &out);
        self.egress.put_back(out);
    }

    /// The answer to HEAD: that of GET without the stream (RFC 9110, section 9.3.2).
    fn answer_stream_head(&mut self, key: SlotKey, request: &Request<'_>, transport: Transport) {
        let mut out = self.egress.scratch();
        let framing = Self::framing(request.version);
        let cors = self.cors(request.origin);
        response::stream_head(transport, framing, self.clock.date(), cors, &mut out);
        self.stats.add(Metric::RequestsAnswered, 1);
        self.write(key, &out);
        self.egress.put_back(out);
        // Without chunks, the head has said that the connection closes.
        if framing == Framing::Close || !request.keep_alive || self.is_draining() {
            self.end(key, CloseReason::Done);
        } else {
            self.await_request(key);
        }
    }

    const fn framing(version: Version) -> Framing {
        match version {
            Version::Http11 => Framing::Chunked,
            Version::Http10 => Framing::Close,
        }
    }

    pub(crate) const fn gauge(transport: Transport) -> Metric {
        match transport {
            Transport::Sse => Metric::SessionsSse,
            Transport::Ndjson => Metric::SessionsNdjson,
            Transport::Test => Metric::SessionsTest,
        }
    }

    /// Takes a session from all its ids.
    pub(crate) fn log_out(&mut self, key: SlotKey, session: Session) {
        self.stats.take(Self::gauge(session.transport), 1);
        let name = self.name(key);
        for &id in self.sessions.keys(key.index, &session) {
            self.shared.router.logout(id, name);
        }
        if session.several {
            self.sessions.several.remove(&key.index);
        }
    }
}
