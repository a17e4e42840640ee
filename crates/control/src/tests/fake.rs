//! A server without workers, and a client without a socket.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use auth::UnixSeconds;
use auth::tickets::{Hash, Holder};
use axum::Router as Http;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use graph::{Graph, Id, Key};
use history::Limits;
use parking_lot::Mutex;
use presence::{NodeName, Online};
use reactor::{LatencyHistogram, SlotKey, Snapshot};
use router::{Counts, Mailboxes, Parcel, Payload, Router, SessionRef, WorkerId};
use serde_json::Value;
use server::{
    AccessLogCounts, EventPublisher, Metric, PresenceCounts, ServerStats, SessionReport, Standing,
    TicketNews,
};
use tower::ServiceExt;

use crate::api::Api;
use crate::backend::{Backend, IdentityError};
use crate::live_tokens::LiveTokens;
use crate::routes;
use crate::tokens::Tokens;

/// What the workers do with a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    /// Write it at once.
    Write,
    /// Nothing, until the test says so.
    Sleep,
    /// Settle it and remember nothing.
    Count,
    /// Have no room for it.
    Full,
}

pub(crate) struct FakeMail {
    pub(crate) workers: Mutex<Workers>,
    pub(crate) waiting: Mutex<Vec<Parcel>>,
    pub(crate) seen: Mutex<Vec<(String, Option<String>, Payload)>>,
}

impl Mailboxes for FakeMail {
    fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        if *self.workers.lock() == Workers::Count {
            settle(
                &parcel,
                Counts {
                    written: targets(&parcel),
                    ..NONE
                },
            );
            return Ok(());
        }
        for delivery in &parcel.deliveries {
            let event = &parcel.events[delivery.event as usize];
            let kind = event
                .event_type
                .as_ref()
                .map(|kind| kind.as_str().to_owned());
            self.seen
                .lock()
                .push((event.subject.to_string(), kind, event.payload.clone()));
        }
        match *self.workers.lock() {
            Workers::Write | Workers::Count => settle(
                &parcel,
                Counts {
                    written: targets(&parcel),
                    ..NONE
                },
            ),
            Workers::Sleep => self.waiting.lock().push(parcel),
            Workers::Full => return Err(parcel),
        }
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

pub(crate) const NONE: Counts = Counts {
    written: 0,
    queued: 0,
    shed: 0,
};

fn targets(parcel: &Parcel) -> u64 {
    parcel.recipients() as u64
}

fn settle(parcel: &Parcel, counts: Counts) {
    parcel.tally.add(counts);
    parcel.tally.settle();
}

#[derive(Clone)]
pub(crate) struct Fake(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) router: Router<FakeMail>,
    pub(crate) draining: AtomicBool,
    pub(crate) paused: AtomicBool,
    pub(crate) closed: Mutex<Vec<SessionRef>>,
    /// Workers keep the question instead of answering it.
    pub(crate) deaf: AtomicBool,
    /// Sessions that are reported at most.
    pub(crate) inspected_max: AtomicUsize,
    /// What was asked about identities.
    pub(crate) identity: Mutex<Vec<String>>,
    /// Identities have no room for more.
    pub(crate) full: AtomicBool,
    pub(crate) tickets: AtomicBool,
    /// What is known of the clients of every id.
    pub(crate) standing: Mutex<Standing>,
    /// Who is online, if that is kept.
    pub(crate) online: Mutex<Option<Arc<Online>>>,
    /// The nodes on which each id is online.
    pub(crate) nodes: Mutex<Vec<NodeName>>,
    /// What the workers say of sessions, beyond what is the same for all.
    pub(crate) reported: Mutex<fn(&mut SessionReport)>,
}

impl std::ops::Deref for Fake {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self::with_router(|router| router)
    }

    /// With a history of this many bytes.
    pub(crate) fn with_history(bytes: usize) -> Self {
        let age_seconds = None;
        Self::with_router(|router| router.with_history(Limits { bytes, age_seconds }))
    }

    fn with_router(change: impl FnOnce(Router<FakeMail>) -> Router<FakeMail>) -> Self {
        let mail = FakeMail {
            workers: Mutex::new(Workers::Write),
            waiting: Mutex::default(),
            seen: Mutex::default(),
        };
        Self(Arc::new(Inner {
            router: change(Router::new("e", Arc::new(Graph::memory()), mail)),
            draining: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            closed: Mutex::default(),
            deaf: AtomicBool::new(false),
            inspected_max: AtomicUsize::new(usize::MAX),
            identity: Mutex::default(),
            full: AtomicBool::new(false),
            tickets: AtomicBool::new(true),
            standing: Mutex::default(),
            online: Mutex::default(),
            nodes: Mutex::default(),
            reported: Mutex::new(|_| ()),
        }))
    }

    /// Returns a session of an id on a worker.
    pub(crate) fn login(&self, id: &str, worker: u16, index: u32) -> SessionRef {
        let session = session_at(worker, index);
        self.router.login(&id.parse().unwrap(), session).unwrap();
        session
    }

    pub(crate) fn subscribe(&self, subscriber: &str, subject: &str) {
        let graph = self.router.graph();
        graph
            .subscribe(&subscriber.parse().unwrap(), &subject.parse().unwrap())
            .unwrap();
    }

    pub(crate) fn unsubscribe(&self, subscriber: &str, subject: &str) {
        let graph = self.router.graph();
        graph
            .unsubscribe(&subscriber.parse().unwrap(), &subject.parse().unwrap())
            .unwrap();
    }

    pub(crate) fn workers(&self, workers: Workers) {
        *self.router.mailboxes().workers.lock() = workers;
    }

    /// Settles the parcels that wait for the workers with these counts. Returns their number.
    pub(crate) fn settle(&self, counts: Counts) -> usize {
        let waiting = std::mem::take(&mut *self.router.mailboxes().waiting.lock());
        for parcel in &waiting {
            let events = parcel.deliveries.len() as u64;
            settle(
                parcel,
                Counts {
                    written: events * counts.written,
                    queued: events * counts.queued,
                    shed: events * counts.shed,
                },
            );
        }
        waiting.iter().map(|parcel| parcel.deliveries.len()).sum()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.router.mailboxes().waiting.lock().len()
    }

    /// Returns what the workers got so far.
    pub(crate) fn seen(&self) -> Vec<(String, Option<String>, Payload)> {
        std::mem::take(&mut self.router.mailboxes().seen.lock())
    }

    pub(crate) fn api(&self) -> Api<Self> {
        self.api_with(Tokens::default())
    }

    /// Returns the API with tokens.
    pub(crate) fn api_with(&self, tokens: Tokens) -> Api<Self> {
        Api::new(self.clone(), LiveTokens::new(tokens, true), 100)
    }

    pub(crate) fn http(&self) -> Http {
        routes::router(Arc::new(self.api()))
    }
}

impl Backend for Fake {
    type Mailboxes = FakeMail;

    fn router(&self) -> &Router<FakeMail> {
        &self.0.router
    }

    fn online(&self) -> Option<Arc<Online>> {
        self.online.lock().clone()
    }

    fn nodes_of(&self, _: Key) -> Vec<NodeName> {
        self.nodes.lock().clone()
    }

    fn presence_counts(&self) -> Option<PresenceCounts> {
        Some(PresenceCounts {
            told: 4,
            bulk: 3,
            ..PresenceCounts::default()
        })
    }

    /// Worker 0 has counted 1 of the first metric, 2 of the second; worker 1 a hundred times that.
    fn stats(&self) -> ServerStats {
        let worker = |factor: u64| (1..=Metric::ALL.len() as u64).map(|n| n * factor).collect();
        let mut metrics = Snapshot {
            metrics: Metric::ALL.iter().map(|metric| metric.describe()).collect(),
            workers: vec![worker(1), worker(100)],
        };
        metrics.declare(&erlang::metric_descriptions());
        let latency = LatencyHistogram::default();
        latency.record(Duration::from_micros(60));
        latency.record(Duration::from_secs(20));
        ServerStats {
            metrics,
            delivery_latency: latency.read(),
            access_log: Some(AccessLogCounts {
                written: 4,
                dropped: 2,
                failed: 1,
            }),
            slow: vec![("rj".parse().unwrap(), 3)],
            buffer_limit_bytes: 1 << 20,
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    fn close(&self, sessions: &[SessionRef]) {
        self.closed.lock().extend(sessions);
    }

    fn inspect(
        &self,
        sessions: &[SessionRef],
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    ) {
        if self.deaf.load(Ordering::Relaxed) {
            std::mem::forget(report);
            return;
        }
        let reports: Vec<_> = sessions
            .iter()
            .take(self.inspected_max.load(Ordering::Relaxed))
            .map(|&session| {
                let mut one = session_report(session);
                self.reported.lock()(&mut one);
                one
            })
            .collect();
        tokio::spawn(async move { reports.into_iter().for_each(|one| report(vec![one])) });
    }

    fn publish_for_clients(&self, _: Box<dyn EventPublisher>, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn accepts_tickets(&self) -> bool {
        self.tickets.load(Ordering::Relaxed)
    }

    fn standing(&self, _: &Id, _: UnixSeconds) -> Standing {
        *self.standing.lock()
    }

    fn issue_ticket(
        &self,
        ids: &[Id],
        ttl: Duration,
        random: [u8; 16],
        _: UnixSeconds,
    ) -> Result<String, IdentityError> {
        assert_ne!(random, [0; 16]);
        self.note(format!("ticket {ids:?} {ttl:?}"))?;
        Ok("a-ticket".to_owned())
    }

    fn revoke(&self, id: &Id, before: UnixSeconds, now: UnixSeconds) -> Result<(), IdentityError> {
        let ahead = before.0.saturating_sub(now.0);
        self.note(format!(
            "revoke {id} {}",
            if ahead == 1 { 1 } else { before.0 }
        ))
    }

    fn revoke_token(&self, jti: &str, _: UnixSeconds) -> Result<(), IdentityError> {
        self.note(format!("revoke token {jti}"))
    }

    fn ban(&self, id: &Id, duration: Duration, _: UnixSeconds) -> Result<(), IdentityError> {
        self.note(format!("ban {id} {duration:?}"))
    }

    fn announce_tickets_with(&self, _: Box<dyn Fn(TicketNews) + Send + Sync>) {}

    fn accept_ticket(
        &self,
        _: Hash,
        ids: &[Id],
        issued: UnixSeconds,
        until: UnixSeconds,
        _: UnixSeconds,
    ) -> Result<(), IdentityError> {
        self.note(format!("accept {ids:?} for {} s", until.0 - issued.0))
    }

    fn ticket_used_elsewhere(
        &self,
        _: Hash,
        ids: &[Id],
        _: UnixSeconds,
        holder: Holder,
        _: UnixSeconds,
    ) -> Result<(), IdentityError> {
        self.note(format!(
            "used {ids:?} by {}/{}",
            holder.node, holder.session
        ))
    }

    fn ticket_released_elsewhere(&self, _: &Hash, holder: Holder, _: UnixSeconds) {
        let _ = self.note(format!("released by {}/{}", holder.node, holder.session));
    }

    fn ticket_announced(&self, _: &Hash, session: u64) {
        let _ = self.note(format!("announced {session}"));
    }

    fn tickets_of_node_gone(&self, node: u64, _: UnixSeconds) {
        let _ = self.note(format!("node {node} is gone"));
    }

    /// One session of each of two workers, the second owed more.
    fn slowest(&self, limit: usize, report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static) {
        if self.deaf.load(Ordering::Relaxed) {
            std::mem::forget(report);
            return;
        }
        assert_eq!(limit, 1);
        for worker in 0..2 {
            let mut slow = session_report(session_at(worker, 5));
            slow.backlog_bytes = 100 + usize::from(worker);
            report(vec![slow]);
        }
    }
}

impl Inner {
    fn note(&self, asked: String) -> Result<(), IdentityError> {
        let is_full = self.full.load(Ordering::Relaxed);
        self.identity.lock().push(asked);
        match is_full {
            false => Ok(()),
            true => Err(IdentityError {
                sentence: "there are too many".to_owned(),
                is_full,
            }),
        }
    }
}

fn session_at(worker: u16, index: u32) -> SessionRef {
    let generation = 0;
    SessionRef::new(WorkerId(worker), SlotKey { index, generation })
}

fn session_report(session: SessionRef) -> SessionReport {
    SessionReport {
        session,
        ids: vec![Id::from(7), "rj".parse().unwrap()],
        transport: "sse",
        age: Duration::from_millis(1500 + u64::from(session.key().index)),
        peer: Some(SocketAddr::from(([10, 0, 0, 1], 5))),
        backlog_frames: 1,
        backlog_bytes: 2,
        bytes_acknowledged: Some(3),
        bytes_unacknowledged: None,
        is_behind: false,
        last_gap: None,
    }
}

/// Returns a body of these pieces.
pub(crate) fn stream(pieces: Vec<Bytes>) -> Body {
    struct Pieces(std::vec::IntoIter<Bytes>);
    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
            std::task::Poll::Ready(self.0.next().map(|piece| Ok(http_body::Frame::data(piece))))
        }
    }
    Body::new(Pieces(pieces.into_iter()))
}

/// A body whose pieces come through a channel.
pub(crate) struct Channel(pub(crate) tokio::sync::mpsc::Receiver<Bytes>);

impl http_body::Body for Channel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok(http_body::Frame::data(piece))))
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

/// One request: method, path, headers, body.
pub(crate) async fn ask(
    http: &Http,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.into()).unwrap();
    let response = http.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes: Bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

/// Runs a test on a runtime like that of the control API, with a clock that can be wound.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}
