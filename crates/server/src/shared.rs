//! State shared by all workers of a server. The path of an event writes nothing in it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use reactor::{Mailbox, RateLimitedWarnings, Snapshot, SourceCounts};
use router::{Router, WorkerId};

use crate::budget::Budget;
use crate::client_publish::ClientPublishing;
use crate::demo::DemoPage;
use crate::identity::IdentityStore;
use crate::limits::{CONNECTION_WARNING_INTERVAL, Limits};
use crate::losses::Losses;
use crate::mail::Mail;
use crate::post::Post;
use crate::presence::Presence;
use crate::settings::{LiveSettings, Settings};
use crate::stats::WorkerStats;

/// Adds the metrics of an external worker to those of the server.
pub(crate) type AddMetrics = dyn Fn(&mut Snapshot) + Send + Sync;

/// Shared state of a server. Lives as long as its workers and its handles.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) limits: &'static Limits,
    /// The settings that a reload has set last.
    pub(crate) live: Mutex<Arc<LiveSettings>>,
    pub(crate) router: Arc<Router<Post>>,
    /// Metrics of each worker, those of external workers last.
    pub(crate) stats: Box<[Arc<WorkerStats>]>,
    pub(crate) external_metrics: RwLock<Vec<Box<AddMetrics>>>,
    pub(crate) demo: OnceLock<DemoPage>,
    /// Set if clients may publish.
    pub(crate) client_publishing: OnceLock<ClientPublishing>,
    /// Set if it is kept who is online.
    pub(crate) presence: Option<Arc<Presence>>,
    /// Connections admitted, over all workers.
    pub(crate) connections: AtomicUsize,
    /// Connections by source, if sources are limited.
    pub(crate) sources: SourceCounts,
    pub(crate) draining: AtomicBool,
    /// Whether streams are sent to another server for now; see [`Handle::pause`](crate::Handle).
    pub(crate) paused: AtomicBool,
    /// Whether another server is the better place for new clients; see
    /// [`Handle::set_ready`](crate::Handle::set_ready).
    pub(crate) unready: AtomicBool,
    /// Warnings about connections that fail before their first request.
    pub(crate) connection_warnings: RateLimitedWarnings,
    pub(crate) identity: IdentityStore,
    /// Bytes in buffers, over all workers.
    pub(crate) budget: Budget,
}

impl Shared {
    /// Makes the state of a server that has not started, with a place for each mailbox of the
    /// router.
    pub(crate) fn new(
        settings: Settings,
        limits: &'static Limits,
        router: Router<Post>,
    ) -> Arc<Self> {
        let presence = settings.presence;
        let places = router.mailboxes().mailboxes.len();
        Arc::new(Self {
            live: Mutex::new(Arc::clone(&settings.live)),
            stats: (0..places).map(|_| Arc::default()).collect(),
            external_metrics: RwLock::default(),
            demo: OnceLock::new(),
            client_publishing: OnceLock::new(),
            presence: presence
                .map(|it| Arc::new(Presence::with_limits(it, router.epoch(), limits))),
            connections: AtomicUsize::new(0),
            sources: SourceCounts::default(),
            draining: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            unready: AtomicBool::new(false),
            connection_warnings: RateLimitedWarnings::new(CONNECTION_WARNING_INTERVAL),
            identity: IdentityStore::default(),
            budget: Budget::new(places as u16 - settings.external_workers),
            router: Arc::new(router),
            settings,
            limits,
        })
    }

    /// Returns the mailbox of a worker.
    pub(crate) fn mailbox(&self, worker: WorkerId) -> &Arc<Mailbox<Mail>> {
        &self.router.mailboxes().mailboxes[usize::from(worker.0)]
    }

    /// Returns what the mailbox of a worker refused.
    pub(crate) fn losses(&self, worker: WorkerId) -> &Losses {
        &self.router.mailboxes().losses[usize::from(worker.0)]
    }

    /// Returns the metrics of a worker.
    pub(crate) fn stats(&self, worker: WorkerId) -> &Arc<WorkerStats> {
        &self.stats[usize::from(worker.0)]
    }

    /// Returns whether the server is draining.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns whether new clients should come here.
    pub(crate) fn is_ready(&self) -> bool {
        !self.takes_no_streams() && !self.unready.load(Ordering::Relaxed)
    }

    /// Returns whether the server takes no streams: it is draining, or paused.
    pub(crate) fn takes_no_streams(&self) -> bool {
        self.is_draining() || self.paused.load(Ordering::Relaxed)
    }
}
