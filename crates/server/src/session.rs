//! Sessions: requests to answers or streams.

/// Login.
mod login;
/// Ends of streams.
mod last_word;

use std::collections::HashMap;
use std::sync::Arc;

use auth::{TokenError, UnixSeconds};
use graph::Key;
use reactor::{Driver, Mailbox, SlotKey};
use router::{SessionRef, WorkerId};
use wire::frame;
use wire::head::{Body, HeadError, Method, Request, Version};
use wire::status::Status;
use wire::transport::{Framing, Transport};

use crate::admission::Admission;
use crate::answer::{Answer, Responder};
use crate::client_address;
use crate::demo::is_direct;
use crate::identity::{AwaitingKeys, Denial, Grant};
use crate::ingress::RequestHandler;
use crate::lease::{Lease, Leases};
use crate::mail::Mail;
use crate::page_request;
use crate::settings::LiveSettings;
use crate::shared::Shared;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Ended, Extras, Phase, Session};

pub(crate) use last_word::{LastWord, end_stream};

/// Sessions of a worker: what login needs beyond the connection table.
pub(crate) struct Sessions {
    worker: WorkerId,
    shared: Arc<Shared>,
    pub(crate) live: Arc<LiveSettings>,
    mailbox: Arc<Mailbox<Mail>>,
    /// All ids of a session that has several, by slot.
    several: HashMap<u32, Box<[Key]>>,
    pub(crate) awaiting_keys: AwaitingKeys,
    pub(crate) leases: Leases,
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
    pub(crate) admission: &'a mut Admission,
}

impl<D: Driver> RequestHandler<D> for Requests<'_> {
    fn handle(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, request: &Request<'_>) {
        let Self {
            sessions,
            responder,
            admission,
        } = self;
        if table
            .get(key)
            .is_some_and(|connection| !connection.admitted)
        {
            let route = Route::of(request.path);
            let is_for_events = matches!(route, Route::Stream(Transport::Sse, _));
            return responder.refuse_request(table, key, request, is_for_events);
        }
        if !responder.live.allows_host(request.host) {
            return responder.answer(table, key, request, &Answer::misdirected());
        }
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
            (Route::Page, _) if !responder.live.page => Answer::no_page(),
            (Route::Page, _) => match shared.demo.get() {
                Some(demo) if is_direct(request) => demo.answer(),
                _ => Answer::page(),
            },
            (Route::Stream(transport, segment), method) => {
                match sessions.authorize(table, key, request, segment) {
                    Ok(grant) if method == Method::Get => {
                        match admit_client(admission, table, key, request) {
                            Ok(()) => {
                                return sessions
                                    .open(table, responder, key, request, transport, &grant);
                            }
                            Err(limit) => {
                                table.stats.add(limit, 1);
                                refusal(
                                    responder,
                                    transport,
                                    request,
                                    "too many connections; try again later",
                                )
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
                        table.stats.denied(&denial);
                        denial.answer()
                    }
                }
            }
        };
        responder.answer(table, key, request, &answer);
    }

    fn reject(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, error: HeadError) {
        self.responder.reject_head(table, key, error);
    }
}

/// Makes the answer to a request for a stream that there is no room for.
fn refusal(
    responder: &mut Responder,
    transport: Transport,
    request: &Request<'_>,
    reason: &'static str,
) -> Answer {
    match transport {
        Transport::Sse => responder.refusal_of_stream(request, reason),
        Transport::Ndjson | Transport::Test => Answer::busy(reason),
    }
}

/// Counts the client of a request for a stream, where a trusted proxy sends it.
fn admit_client<D: Driver>(
    admission: &mut Admission,
    table: &ConnectionTable<D>,
    key: SlotKey,
    request: &Request<'_>,
) -> Result<(), Metric> {
    if !admission.counts_clients() {
        return Ok(());
    }
    let Some(peer) = table.peer_address(key) else {
        return Ok(());
    };
    let client = client_address::of_request(&admission.live.policy, request, peer.ip());
    admission.admit_client(key.index, client)
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
            awaiting_keys: AwaitingKeys::default(),
            leases: Leases::default(),
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

    /// Logs a connection in as the ids of `grant` and begins its stream.
    fn open<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
        request: &Request<'_>,
        transport: Transport,
        grant: &Grant<'_>,
    ) {
        let ids = &grant.ids;
        if self.shared.is_draining() {
            let reason = "the server is shutting down; try again in a moment";
            let answer = refusal(responder, transport, request, reason);
            return responder.answer(table, key, request, &answer);
        }
        let now = UnixSeconds(table.clock.unix_seconds);
        let ticket = match self.redeem(key, grant, now) {
            Ok(ticket) => ticket,
            Err(denial) => {
                table.stats.denied(&denial);
                return responder.answer(table, key, request, &denial.answer());
            }
        };
        let logged_in = self
            .log_in(key, ids)
            .map_err(|reason| refusal(responder, transport, request, reason))
            .and_then(|keys| match self.shared.identity.check(grant, now) {
                Ok(()) => Ok(keys),
                Err(denial) => {
                    self.log_out_of(key, &keys);
                    table.stats.denied(&denial);
                    Err(denial.answer())
                }
            });
        let keys = match logged_in {
            Ok(keys) => keys,
            Err(answer) => {
                self.release(key, ticket, now);
                return responder.answer(table, key, request, &answer);
            }
        };
        if let Some(identity) = &grant.identity
            && let Some(connection) = table.get_mut(key)
        {
            connection.extras.insert(Extras::LEASE);
            let lease = Lease::of(identity, &self.shared.identity.fingerprints);
            self.leases.insert(key.index, lease, ticket);
        }
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
        self.log_out_of(*key, self.keys(key.index, session));
        if session.several {
            self.several.remove(&key.index);
        }
        let has_lease = |extras: Extras| extras.has(Extras::LEASE);
        if table
            .at(key.index)
            .is_some_and(|(_, connection)| has_lease(connection.extras))
        {
            let ticket = self.leases.log_out(key.index);
            self.release(*key, ticket, UnixSeconds(table.clock.unix_seconds));
        }
    }
}
