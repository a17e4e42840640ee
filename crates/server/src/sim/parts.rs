//! Parts of a simulated server: what its workers share, the workers, and their turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use graph::Graph;
use history::History;
use reactor::{Driver as _, Handler, Mailbox, RateLimitedWarnings, SharedClock};
use router::{Router, WorkerId};
use simulated::SimDriver;
use simulated::network::{LISTENER, SharedNetwork as Net, network};

use crate::budget::Budget;
use crate::handle::Handle;
use crate::limits::Limits;
use crate::listener::ListenerKind;
use crate::mail::Mail;
use crate::post::{MAILBOX_WEIGHT_MAX, Post};
use crate::settings::{LiveSettings, Settings};
use crate::shared::Shared;
use crate::stats::Metric;
use crate::worker::Worker;

/// Descriptors that each worker may have.
pub(super) const DESCRIPTORS: usize = 1_000;

/// Bounds of simulated servers: small ones here, and those of production in other crates.
#[cfg(test)]
const LIMITS: &Limits = &Limits::SMALL;
#[cfg(not(test))]
const LIMITS: &Limits = &Limits::PRODUCTION;

/// What the workers of a server share, and what others have of it.
pub(super) struct Parts {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Handle,
    /// One of each worker, those of external workers last.
    pub(super) mailboxes: Vec<Arc<Mailbox<Mail>>>,
    /// Clock of publishers.
    pub(super) clock: Arc<AtomicU64>,
}

impl Parts {
    pub(super) fn new(
        workers: u16,
        live: LiveSettings,
        set: impl FnOnce(&mut Settings),
        prepare: impl FnOnce(Router<Post>) -> Router<Post>,
    ) -> Self {
        Self::over(Arc::new(Graph::memory()), "e", workers, live, set, prepare)
    }

    /// Makes a server over a graph, whose events have this epoch.
    pub(super) fn over(
        graph: Arc<Graph>,
        epoch: &str,
        workers: u16,
        live: LiveSettings,
        set: impl FnOnce(&mut Settings),
        prepare: impl FnOnce(Router<Post>) -> Router<Post>,
    ) -> Self {
        let mut settings = Settings {
            live: Arc::new(live),
            ..Settings::default()
        };
        set(&mut settings);
        let mailbox = |_| Arc::new(Mailbox::new(MAILBOX_WEIGHT_MAX).expect("an eventfd"));
        let places = workers + settings.external_workers;
        let mailboxes: Vec<_> = (0..places).map(mailbox).collect();
        let clock = Arc::default();
        let post = Post::new(
            mailboxes.clone().into(),
            SharedClock::manual(Arc::clone(&clock)),
            LIMITS,
        );
        let router = prepare(Router::new(epoch, graph, post));
        let shared = Shared::new(settings, LIMITS, router);
        Self {
            handle: Handle {
                shared: Arc::clone(&shared),
            },
            shared,
            mailboxes,
            clock,
        }
    }
}

/// Returns the position up to which events have left the history of a server.
pub(super) fn left(handle: &Handle) -> u64 {
    let recorder = handle.router().recorder();
    recorder.map_or(0, |recorder| recorder.read(History::left))
}

/// Makes a worker with a network of its own, and listeners of these kinds.
pub(super) fn worker(nth: u16, shared: &Arc<Shared>, kinds: &[ListenerKind]) -> Worker<SimDriver> {
    let warnings = RateLimitedWarnings::new(Duration::from_secs(60));
    let mut worker = Worker::new(
        WorkerId(nth),
        Arc::clone(shared),
        warnings,
        SimDriver(network(DESCRIPTORS)),
    );
    for &kind in kinds {
        worker
            .acceptor
            .open(&mut worker.table.driver, kind, |driver, token| {
                driver.listen(([127, 0, 0, 1], 1).into(), &LISTENER, token)
            })
            .expect("the simulated listener opens");
    }
    worker
}

/// Whether a worker has a reason to take a turn, but for a deadline.
pub(super) fn has_reason<H: Handler>(worker: &H, net: &Net, mailbox: &Mailbox<Mail>) -> bool {
    worker.has_work() || net.borrow().has_signals() || !mailbox.is_asleep()
}

/// Checks that the bytes which a worker has in buffers are those that the budget knows of.
pub(super) fn assert_budget_is_true(budget: &Budget, nth: u16, worker: &Worker<SimDriver>) {
    let held = budget.held_by(nth);
    assert_eq!(held, worker.count_buffer_bytes(), "bytes in buffers");
}

/// Checks that no connection has left anything in what the workers share.
pub(super) fn assert_nothing_shared_is_left(shared: &Shared, handle: &Handle) {
    assert_eq!(handle.router().online(), 0, "ids online");
    for gauge in [
        Metric::Connections,
        Metric::SessionsSse,
        Metric::SessionsNdjson,
        Metric::SessionsTest,
        Metric::SessionsWebSocket,
        Metric::SessionsPoll,
        Metric::BacklogSessions,
        Metric::BacklogBytes,
        Metric::BufferBytes,
        Metric::SessionsReplaying,
        Metric::TlsConnections,
    ] {
        assert_eq!(handle.stats().total(gauge), 0, "{gauge:?}");
    }
    let admitted = shared.connections.load(Ordering::Relaxed);
    assert_eq!(admitted, 0, "connections that count against the limit");
    assert!(shared.sources.is_empty(), "sources of connections");
    assert_eq!(shared.budget.total(), 0, "bytes in buffers");
}

/// Checks that no connection has left anything in its worker.
pub(super) fn assert_nothing_is_left(worker: &Worker<SimDriver>, mailbox: &Mailbox<Mail>) {
    assert_eq!(worker.table.len(), 0, "records");
    assert!(worker.is_without_websockets(), "WebSocket state");
    let descriptors = worker.table.driver.0.borrow().descriptors;
    assert_eq!(descriptors, DESCRIPTORS, "descriptors");
    assert_eq!(mailbox.outstanding(), 0, "weight in the mailbox");
    assert!(worker.table.is_without_extras(), "side tables");
    assert!(worker.keeps_no_input(), "beginnings of heads");
    assert!(worker.awaits_no_login(), "logins to be decided on");
    assert!(worker.keeps_no_search(), "searches for replays");
    assert!(worker.keeps_no_session(), "ids, replays or polls");
    assert!(worker.presence.is_empty(), "notices of presence");
}
