//! Mail to workers, and the handle by which other threads send it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use auth::UnixSeconds;
use graph::{Graph, Id};
use parking_lot::{Mutex, RwLock};
use reactor::{Mailbox, MetricDescription, SharedClock, SlotKey, Snapshot};
use router::{Mailboxes, Parcel, Router, SessionRef, WorkerId};

use crate::access_log::AccessLog;
use crate::client_publish::{ClientPublishing, Published};
use crate::demo::DemoPage;
use crate::identity::{IdentityStore, KeyFetcher};
use crate::lease::Revoked;
use crate::login_check::{LoginChecker, LoginVerdict};
use crate::losses::Losses;
use crate::presence::{ChangedSessions, EdgeParcel, Presence};
use crate::settings::LiveSettings;
use crate::stats::{Metric, ServerStats, WorkerStats};

/// Bytes of payloads, recipients and what holds them that may wait for one worker. A publish beyond
/// it is shed and says so in its receipt; publishers that await their receipts never get there.
pub(crate) const MAILBOX_WEIGHT_MAX: usize = 64 << 20;

/// Weight of a delivery besides its payload and its recipients, in bytes.
const DELIVERY_BYTES: usize = 128;

/// What a worker does with what it was asked for.
pub(crate) type Report = Box<dyn FnOnce(Vec<SessionReport>) + Send>;

/// Message to a worker, handled in its next turn.
pub(crate) enum Mail {
    Deliver(Parcel),
    /// Tell those sessions that asked who came and went.
    Presence(EdgeParcel),
    /// Send each session that asked a new snapshot.
    PresenceSnapshots,
    /// The same of these sessions: the subscriptions of their ids have changed.
    PresenceChanged(ChangedSessions),
    Inspect {
        sessions: Vec<SlotKey>,
        report: Report,
    },
    Slowest {
        limit: usize,
        report: Report,
    },
    Close(Vec<SlotKey>),
    /// End the sessions of a revoked identity.
    Revoke(Revoked),
    /// End those of the sessions whose identity was issued before a time.
    RevokeOlder(Vec<SlotKey>, UnixSeconds),
    /// The whole response to a relayed request.
    Answer {
        key: SlotKey,
        response: PageResponse,
    },
    /// What became of an event that a client has published.
    Published(Published),
    /// The key sets were fetched: requests that waited for it go on.
    KeysFetched,
    /// A login was decided on.
    LoginChecked {
        key: SlotKey,
        number: u64,
        verdict: LoginVerdict,
    },
    /// Use these settings from now on.
    Reload(Reload),
    /// Stop accepting, send farewells, flush backlogs, and end.
    Drain {
        /// Whether the worker ends. Otherwise all clients are only told to reconnect.
        ends: bool,
    },
}

/// New settings for a worker.
pub(crate) struct Reload {
    pub(crate) live: Arc<LiveSettings>,
    /// Nothing is sent here: it is dropped when the worker uses the settings.
    pub(crate) pending: SyncSender<Infallible>,
}

/// Reload under way. It need not be awaited.
#[derive(Debug)]
pub struct PendingReload(Receiver<Infallible>);

impl PendingReload {
    /// Waits until all workers use the new settings, or have ended. Returns whether they did so
    /// within `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.0.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }
}

/// State of a session, from its worker and the kernel at the time of the request.
#[derive(Debug, Clone)]
pub struct SessionReport {
    /// The session's name.
    pub session: SessionRef,
    /// The ids it is logged in as.
    pub ids: Vec<Id>,
    /// `sse`, `ndjson` or `test`.
    pub transport: &'static str,
    /// Time since login.
    pub age: Duration,
    /// The address of the client; behind a proxy without a PROXY header, that of the proxy. `None`
    /// if the connection is closed already.
    pub peer: Option<SocketAddr>,
    /// Frames in its backlog.
    pub backlog_frames: usize,
    /// Bytes in its backlog.
    pub backlog_bytes: usize,
    /// Bytes handed to the kernel since the connection began and acknowledged by the peer's kernel.
    pub bytes_acknowledged: Option<u64>,
    /// Bytes handed to the kernel and not acknowledged.
    pub bytes_unacknowledged: Option<u64>,
    /// Whether it reads on from the history and is not live.
    pub is_behind: bool,
    /// The last notice that told it of lost events, if the worker still remembers it.
    pub last_gap: Option<GapReport>,
}

/// A notice that told a session how many of its events were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapReport {
    /// Events that were lost.
    pub lost: u64,
    /// Time since the notice.
    pub ago: Duration,
}

/// Request of the demo page, made of the public listener, that the control API answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// `POST`, `PUT`, `DELETE` or `GET`.
    pub method: &'static str,
    /// Path and query after `/relay`, still percent-encoded.
    pub path_and_query: String,
}

/// The control API's response to a request of the demo page. The body is JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageResponse {
    /// HTTP status code.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// Handler of the demo page's requests. Called on a worker: it must hand the work to another thread
/// and return at once, and call `answer` later from there.
pub type PageHandler = dyn Fn(PageRequest, Box<dyn FnOnce(PageResponse) + Send>) + Send + Sync;

/// Mailboxes of all workers, for the router.
pub struct Post {
    pub(crate) mailboxes: Box<[Arc<Mailbox<Mail>>]>,
    /// By worker: what its mailbox refused.
    pub(crate) losses: Box<[Arc<Losses>]>,
    /// Clock that latencies of deliveries are measured by.
    pub(crate) clock: SharedClock,
}

impl Post {
    /// Makes the post to these mailboxes.
    pub(crate) fn new(mailboxes: Box<[Arc<Mailbox<Mail>>]>, clock: SharedClock) -> Self {
        let losses = mailboxes.iter().map(|_| Arc::default()).collect();
        Self {
            mailboxes,
            losses,
            clock,
        }
    }

    /// Returns the mailbox of a worker.
    pub(crate) fn mailbox(&self, worker: WorkerId) -> &Mailbox<Mail> {
        &self.mailboxes[usize::from(worker.0)]
    }
}

impl Mailboxes for Post {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        let weight = parcel_weight(&parcel);
        let posted = self.mailbox(worker).post(Mail::Deliver(parcel), weight);
        posted.map_err(|mail| match mail {
            Mail::Deliver(parcel) => {
                self.losses[usize::from(worker.0)].add(&parcel);
                parcel
            }
            _ => unreachable!("a mailbox gives back what it was given"),
        })
    }

    fn ring(&self, worker: WorkerId) {
        self.mailbox(worker).ring();
    }
}

pub(crate) fn parcel_weight(parcel: &Parcel) -> usize {
    let payloads = parcel.deliveries.iter().map(|delivery| {
        parcel.events[delivery.event as usize].payload.bytes().len() + DELIVERY_BYTES
    });
    payloads.sum::<usize>() + parcel.recipients() * size_of::<SlotKey>()
}

/// Adds the metrics of an external worker to those of the server.
pub(crate) type AddMetrics = dyn Fn(&mut Snapshot) + Send + Sync;

/// Handle to a running server for other threads. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) router: Arc<Router<Post>>,
    pub(crate) stats: Arc<[Arc<WorkerStats>]>,
    pub(crate) external_metrics: Arc<RwLock<Vec<Box<AddMetrics>>>>,
    pub(crate) draining: Arc<AtomicBool>,
    pub(crate) paused: Arc<AtomicBool>,
    pub(crate) unready: Arc<AtomicBool>,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) demo: Arc<OnceLock<DemoPage>>,
    pub(crate) client_publishing: Arc<OnceLock<ClientPublishing>>,
    pub(crate) live: Arc<Mutex<Arc<LiveSettings>>>,
    pub(crate) identity: Arc<IdentityStore>,
    pub(crate) presence: Option<Arc<Presence>>,
}

impl Handle {
    /// Returns the router, to publish, to send and to look up sessions.
    pub fn router(&self) -> &Router<Post> {
        &self.router
    }

    /// Returns the router, for a thread that outlives its handle.
    pub fn router_shared(&self) -> Arc<Router<Post>> {
        Arc::clone(&self.router)
    }

    /// Returns the graph of subscriptions.
    pub fn graph(&self) -> &Graph {
        self.router.graph()
    }

    /// Returns the metrics of all workers.
    pub fn stats(&self) -> ServerStats {
        let mut snapshot =
            ServerStats::of(self.stats.iter().map(AsRef::as_ref), &self.live_settings());
        snapshot.access_log = self.access_log.as_ref().map(AccessLog::counts);
        for (metrics, mailbox) in snapshot
            .metrics
            .workers
            .iter_mut()
            .zip(&self.router.mailboxes().mailboxes)
        {
            metrics[Metric::MailboxMessages as usize] = mailbox.waiting() as u64;
            metrics[Metric::MailboxBytes as usize] = mailbox.outstanding() as u64;
        }
        // Last, because added metrics move the indexes of the server's own.
        for add in self.external_metrics.read().iter() {
            add(&mut snapshot.metrics);
        }
        snapshot
    }

    /// Adds metrics that an external worker keeps to what [`stats`](Self::stats) returns. `read` is
    /// called at each scrape and returns a snapshot of that worker alone.
    pub fn add_metrics(
        &self,
        worker: WorkerId,
        read: impl Fn() -> Snapshot + Send + Sync + 'static,
    ) {
        let add = move |server: &mut Snapshot| server.add(worker.0.into(), &read());
        self.external_metrics.write().push(Box::new(add));
    }

    /// Declares the metrics of a kind of external worker, so that they have the value zero where no
    /// such worker runs.
    pub fn declare_metrics(&self, metrics: Vec<MetricDescription>) {
        let declare = move |server: &mut Snapshot| server.declare(&metrics);
        self.external_metrics.write().push(Box::new(declare));
    }

    /// Returns whether the server is draining.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns whether the server takes no streams until it is [resumed](Self::resume).
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Reports on sessions: `report` is called on each concerned worker's thread with those of them
    /// that are still there, and is dropped when all have answered. It must not block.
    pub fn inspect(
        &self,
        sessions: &[SessionRef],
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    ) {
        let report = Arc::new(report);
        self.by_worker(sessions, |sessions| {
            let report = Arc::clone(&report);
            Mail::Inspect {
                sessions,
                report: Box::new(move |sessions| report(sessions)),
            }
        });
    }

    /// Reports on the sessions with the largest backlogs, up to `limit` of each worker, like
    /// [`inspect`](Self::inspect).
    pub fn slowest(
        &self,
        limit: usize,
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    ) {
        let report = Arc::new(report);
        for mailbox in &self.router.mailboxes().mailboxes {
            let report = Arc::clone(&report);
            mailbox.insert(Mail::Slowest {
                limit,
                report: Box::new(move |sessions| report(sessions)),
            });
        }
    }

    /// Logs sessions out and closes their connections in their workers' next turns.
    pub fn close(&self, sessions: &[SessionRef]) {
        self.by_worker(sessions, Mail::Close);
    }

    /// Returns the current settings among those that can change without touching a stream.
    pub fn live_settings(&self) -> Arc<LiveSettings> {
        Arc::clone(&self.live.lock())
    }

    /// Replaces the settings that can change without touching a stream by those that `change` makes
    /// of the current ones. They hold from each worker's next turn; time limits hold for what
    /// begins after it. One call at a time takes effect, and none undoes another.
    pub fn reload(&self, change: impl FnOnce(&LiveSettings) -> LiveSettings) -> PendingReload {
        let (pending, reload) = mpsc::sync_channel(1);
        let mut live = self.live.lock();
        *live = Arc::new(change(&live));
        for mailbox in &self.router.mailboxes().mailboxes {
            mailbox.insert(Mail::Reload(Reload {
                live: Arc::clone(&live),
                pending: pending.clone(),
            }));
        }
        PendingReload(reload)
    }

    /// Sets the handler that fetches key sets when a token names an unknown key. Only the first
    /// call counts. Without a handler, such tokens are refused at once.
    pub fn fetch_keys_with(&self, fetcher: Box<KeyFetcher>) {
        self.identity.key_fetch.set_fetcher(fetcher);
    }

    /// Sets who decides on logins, if [`Settings::login_check`](crate::Settings::login_check) is
    /// set. Only the first call counts.
    pub fn check_logins_with(&self, checker: Box<dyn LoginChecker>) {
        let _ = self.identity.login_checker.set(checker);
    }

    /// Lets the page publish, if [`Settings::demo`](crate::Settings::demo) is set. Only the first
    /// call counts.
    pub fn open_demo(&self, page: DemoPage) {
        let page = match self.presence {
            Some(_) => page.with_presence(),
            None => page,
        };
        let _ = self.demo.set(page);
    }

    /// Tells all clients to reconnect, and answers new streams with 503, until
    /// [`resume`](Self::resume) is called: clients are to go to another server.
    pub fn pause(&self) {
        if !self.paused.swap(true, Ordering::Relaxed) {
            self.to_all(|| Mail::Drain { ends: false });
        }
    }

    /// Takes streams again.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Sets what `/readyz` of the public listener says while the server takes streams: whether new
    /// clients should come here.
    pub fn set_ready(&self, is_ready: bool) {
        self.unready.store(!is_ready, Ordering::Relaxed);
    }

    /// Starts to drain the server; see [`crate::Server::join`].
    pub fn drain(&self) {
        if !self.draining.swap(true, Ordering::Relaxed) {
            for mailbox in &self.router.mailboxes().mailboxes {
                mailbox.insert(Mail::Drain { ends: true });
            }
        }
    }

    /// Sends mail to each worker.
    pub(crate) fn to_all(&self, mail: impl Fn() -> Mail) {
        for mailbox in &self.router.mailboxes().mailboxes {
            mailbox.insert(mail());
        }
    }

    pub(crate) fn by_worker(&self, sessions: &[SessionRef], mail: impl Fn(Vec<SlotKey>) -> Mail) {
        let mut sessions = sessions.to_vec();
        sessions.sort_unstable();
        for group in sessions.chunk_by(|a, b| a.worker() == b.worker()) {
            let keys = group.iter().map(|session| session.key()).collect();
            let mailbox = self.router.mailboxes().mailbox(group[0].worker());
            mailbox.insert(mail(keys));
        }
    }
}
