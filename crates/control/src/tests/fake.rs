//! A simulated server whose workers the test plays, and a client without a socket.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use auth::policy::{Policy, PolicySettings};
use axum::Router as Http;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use graph::Id;
use history::Limits;
use parking_lot::Mutex;
use reactor::{LatencyHistogram, SlotKey, Snapshot};
use router::{Counts, Parcel, Payload, Router, SessionRef, WorkerId};
use serde_json::Value;
use server::{
    AccessLogCounts, ExternalWorker, Handle, LiveSettings, Metric, Post, PresenceSettings,
    ServerStats, SessionReport, WorkerCommand,
};
use tower::ServiceExt;

use crate::api::Api;
use crate::limits;
use crate::live_tokens::LiveTokens;
use crate::routes;
use crate::tokens::Tokens;

/// Bounds that a test can reach.
pub(crate) const SMALL: limits::Limits = limits::Limits {
    authorized_max: 8,
    unauthorized_max: 4,
    window_targets_max: 8192,
    window_bytes_max: 64 << 10,
    chunk_events_max: 4,
    chunk_bytes_max: 400,
    unread_bytes_max: 1 << 20,
    dropped_bytes_max: 4 << 20,
    idempotency_keys_max: 8,
    history_page_bytes_max: 150,
    hidden_ids_max: 3,
    feeds_max: 2,
    feed_ids_per_line: 3,
    answers_bytes_max: 1000,
};

/// Workers of a server.
const WORKERS: u16 = 4;

/// What the workers do with a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    /// Write it at once.
    Write,
    /// Nothing, until the test says so.
    Sleep,
    /// Settle it and remember nothing.
    Count,
}

pub(crate) const NONE: Counts = Counts {
    written: 0,
    queued: 0,
    shed: 0,
};

fn written(parcel: &Parcel) -> Counts {
    Counts {
        written: parcel.recipients() as u64,
        ..NONE
    }
}

thread_local! {
    /// Servers whose workers act when a runtime of this thread has nothing else to do.
    static SERVERS: RefCell<Vec<Fake>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone)]
pub(crate) struct Fake(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) handle: Handle,
    workers: Vec<ExternalWorker>,
    mode: Mutex<Workers>,
    /// Parcels that the workers keep, each with the number of its worker.
    pub(crate) kept: Mutex<Vec<(usize, Parcel)>>,
    seen: Mutex<Vec<(String, Option<String>, Payload)>>,
    closed: Mutex<Vec<SessionRef>>,
    /// Workers keep the question instead of answering it.
    pub(crate) deaf: AtomicBool,
    /// Sessions that are reported at most.
    pub(crate) inspected_max: AtomicUsize,
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
        Self::with(None, |router| router)
    }

    /// With a history of this many bytes.
    pub(crate) fn with_history(bytes: usize) -> Self {
        let age_seconds = None;
        Self::with(None, |router| {
            router.with_history(Limits { bytes, age_seconds })
        })
    }

    /// With presence.
    pub(crate) fn with_presence() -> Self {
        let presence = PresenceSettings {
            delay: Duration::from_secs(1),
            rate: 1_000_000,
            subscribers_max: 1000,
            in_cluster: true,
        };
        Self::with(Some(presence), |router| {
            router
                .with_history(Limits {
                    bytes: 1 << 20,
                    age_seconds: None,
                })
                .with_moves()
        })
    }

    fn with(
        presence: Option<PresenceSettings>,
        prepare: impl FnOnce(Router<Post>) -> Router<Post>,
    ) -> Self {
        let live = LiveSettings::default();
        let (handle, workers) = ExternalWorker::simulated(WORKERS, live, presence, prepare);
        handle.declare_metrics(erlang::metric_descriptions());
        let fake = Arc::new(Inner {
            handle,
            workers,
            mode: Mutex::new(Workers::Write),
            kept: Mutex::default(),
            seen: Mutex::default(),
            closed: Mutex::default(),
            deaf: AtomicBool::new(false),
            inspected_max: AtomicUsize::new(usize::MAX),
            reported: Mutex::new(|_| ()),
        });
        let fake = Self(fake);
        SERVERS.with_borrow_mut(|all| all.push(fake.clone()));
        fake
    }

    /// Lets the workers act on a thread of their own, for tests without a runtime of [`run`].
    pub(crate) fn act_on_a_thread(&self) {
        let fake = Arc::downgrade(&self.0);
        thread::spawn(move || {
            while let Some(fake) = fake.upgrade() {
                fake.act();
                drop(fake);
                thread::park_timeout(Duration::from_millis(1));
            }
        });
    }

    /// Returns a session of an id on a worker.
    pub(crate) fn login(&self, id: &str, worker: u16, index: u32) -> SessionRef {
        let session = session_at(worker, index);
        self.router().login(&id.parse().unwrap(), session).unwrap();
        session
    }

    pub(crate) fn subscribe(&self, subscriber: &str, subject: &str) {
        let graph = self.router().graph();
        graph
            .subscribe(&subscriber.parse().unwrap(), &subject.parse().unwrap())
            .unwrap();
    }

    pub(crate) fn unsubscribe(&self, subscriber: &str, subject: &str) {
        let graph = self.router().graph();
        graph
            .unsubscribe(&subscriber.parse().unwrap(), &subject.parse().unwrap())
            .unwrap();
    }

    pub(crate) fn api(&self) -> Api {
        self.api_with(Tokens::default())
    }

    /// Returns the API with tokens.
    pub(crate) fn api_with(&self, tokens: Tokens) -> Api {
        Api::new(
            self.handle.clone(),
            LiveTokens::new(tokens, true),
            100,
            SMALL,
        )
    }

    pub(crate) fn http(&self) -> Http {
        routes::router(Arc::new(self.api()))
    }
}

impl Inner {
    pub(crate) fn router(&self) -> &Router<Post> {
        self.handle.router()
    }

    /// Changes what the workers do with later parcels.
    pub(crate) fn workers(&self, workers: Workers) {
        self.act();
        *self.mode.lock() = workers;
    }

    /// Ends the workers: their mailboxes have no room for anything.
    pub(crate) fn end_workers(&self) {
        self.workers.iter().for_each(ExternalWorker::close_mailbox);
    }

    /// Sets whether clients may log in with tickets, and then need one.
    pub(crate) fn accept_tickets(&self, tickets: bool) {
        let settings = PolicySettings {
            tickets,
            ..PolicySettings::default()
        };
        let policy = Arc::new(Policy::new(settings));
        drop(self.handle.reload(|live| LiveSettings {
            policy,
            ..live.clone()
        }));
    }

    /// Sessions of an id were closed as slow three times.
    pub(crate) fn note_slow(&self, id: &str) {
        for worker in &self.workers[..3] {
            worker.note_slow(id.parse().unwrap());
        }
    }

    /// Lets the workers do what they were told.
    fn act(&self) {
        for (number, worker) in self.workers.iter().enumerate() {
            for command in worker.take_commands() {
                self.carry_out(number, worker, command);
            }
        }
    }

    fn carry_out(&self, number: usize, worker: &ExternalWorker, command: WorkerCommand) {
        match command {
            WorkerCommand::Deliver(parcel) => {
                let mode = *self.mode.lock();
                if mode != Workers::Count {
                    let mut seen = self.seen.lock();
                    for delivery in &parcel.deliveries {
                        let event = &parcel.events[delivery.event as usize];
                        let kind = event.event_type.as_ref();
                        let kind = kind.map(|kind| kind.as_str().to_owned());
                        seen.push((event.subject.to_string(), kind, event.payload.clone()));
                    }
                }
                match mode {
                    Workers::Write | Workers::Count => worker.settle(&parcel, written(&parcel)),
                    Workers::Sleep => self.kept.lock().push((number, parcel)),
                }
            }
            WorkerCommand::Inspect(_, report) if self.deaf.load(Ordering::Relaxed) => {
                std::mem::forget(report);
            }
            WorkerCommand::Inspect(sessions, report) => {
                let sessions = sessions.into_iter();
                let shown = sessions.take(self.inspected_max.load(Ordering::Relaxed));
                let reports = shown.map(|key| {
                    let mut one = session_report(worker.session(key));
                    self.reported.lock()(&mut one);
                    one
                });
                report(reports.collect());
            }
            WorkerCommand::Close(sessions) => {
                let sessions = sessions.into_iter().map(|key| worker.session(key));
                self.closed.lock().extend(sessions);
            }
            WorkerCommand::Presence(edges) => worker.release_presence(&edges),
            _ => {}
        }
    }

    /// Settles the parcels that the workers keep with these counts for each event. Returns the
    /// number of events.
    pub(crate) fn settle(&self, counts: Counts) -> usize {
        self.act();
        let kept = std::mem::take(&mut *self.kept.lock());
        for (worker, parcel) in &kept {
            let events = parcel.deliveries.len() as u64;
            let counts = Counts {
                written: events * counts.written,
                queued: events * counts.queued,
                shed: events * counts.shed,
            };
            self.workers[*worker].settle(parcel, counts);
        }
        kept.iter().map(|(_, it)| it.deliveries.len()).sum()
    }

    /// Returns the number of parcels that the workers keep.
    pub(crate) fn waiting(&self) -> usize {
        self.act();
        self.kept.lock().len()
    }

    /// Settles the parcel that was kept last with these counts.
    pub(crate) fn settle_last(&self, counts: Counts) {
        let (worker, parcel) = self.kept.lock().pop().unwrap();
        self.workers[worker].settle(&parcel, counts);
    }

    /// Returns what the workers got so far.
    pub(crate) fn seen(&self) -> Vec<(String, Option<String>, Payload)> {
        self.act();
        std::mem::take(&mut self.seen.lock())
    }

    /// Returns the sessions that the workers were told to close so far.
    pub(crate) fn closed(&self) -> Vec<SessionRef> {
        self.act();
        self.closed.lock().clone()
    }
}

/// Returns what a server says whose worker 0 has counted 1 of the first metric, 2 of the second,
/// and whose worker 1 has counted a hundred times that.
pub(crate) fn server_stats() -> ServerStats {
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
        .on_thread_park(|| {
            // What they do may give the test something to do before the clock is wound.
            let servers = SERVERS.with_borrow(Clone::clone);
            servers.iter().for_each(|server| server.act());
        })
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}
