//! Handle by which other threads reach a running server.

/// Operations on identities.
mod identity;
/// Tickets that several nodes share.
mod tickets;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use graph::Graph;
use presence::Millis;
use reactor::{MetricDescription, SlotKey, Snapshot};
use router::{Router, SessionRef, WorkerId};

use crate::access_log::AccessLog;
use crate::client_publish::{ClientPublishing, EventPublisher};
use crate::demo::DemoPage;
use crate::identity::KeyFetcher;
use crate::login_check::LoginChecker;
use crate::mail::{Mail, Reload, SessionReport};
use crate::post::Post;
use crate::presence::Presence;
use crate::settings::LiveSettings;
use crate::shared::Shared;
use crate::stats::{Metric, ServerStats};

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

/// Handle to a running server for other threads. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Returns the router, to publish, to send and to look up sessions.
    pub fn router(&self) -> &Router<Post> {
        &self.shared.router
    }

    /// Returns the router, for a thread that outlives its handle.
    pub fn router_shared(&self) -> Arc<Router<Post>> {
        Arc::clone(&self.shared.router)
    }

    /// Returns the graph of subscriptions.
    pub fn graph(&self) -> &Graph {
        self.shared.router.graph()
    }

    /// Returns the metrics of all workers.
    pub fn stats(&self) -> ServerStats {
        let workers = self.shared.stats.iter().map(AsRef::as_ref);
        let mut snapshot = ServerStats::of(workers, self.live_settings().buffer_bytes);
        snapshot.access_log = self
            .shared
            .settings
            .access_log
            .as_ref()
            .map(AccessLog::counts);
        for (metrics, mailbox) in snapshot
            .metrics
            .workers
            .iter_mut()
            .zip(&self.shared.router.mailboxes().mailboxes)
        {
            metrics[Metric::MailboxMessages as usize] = mailbox.waiting() as u64;
            metrics[Metric::MailboxBytes as usize] = mailbox.outstanding() as u64;
        }
        // Last, because added metrics move the indexes of the server's own.
        for add in self.shared.external_metrics.read().iter() {
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
        self.shared.external_metrics.write().push(Box::new(add));
    }

    /// Declares the metrics of a kind of external worker, so that they have the value zero where no
    /// such worker runs.
    pub fn declare_metrics(&self, metrics: Vec<MetricDescription>) {
        let declare = move |server: &mut Snapshot| server.declare(&metrics);
        self.shared.external_metrics.write().push(Box::new(declare));
    }

    /// Returns whether the server is draining.
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Relaxed)
    }

    /// Returns whether the server takes no streams until it is [resumed](Self::resume).
    pub fn is_paused(&self) -> bool {
        self.shared.paused.load(Ordering::Relaxed)
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
        self.to_all(|| {
            let report = Arc::clone(&report);
            Mail::Slowest {
                limit,
                report: Box::new(move |sessions| report(sessions)),
            }
        });
    }

    /// Logs sessions out and closes their connections in their workers' next turns.
    pub fn close(&self, sessions: &[SessionRef]) {
        self.by_worker(sessions, Mail::Close);
    }

    /// Returns the current settings among those that can change without touching a stream.
    pub fn live_settings(&self) -> Arc<LiveSettings> {
        Arc::clone(&self.shared.live.lock())
    }

    /// Replaces the settings that can change without touching a stream by those that `change` makes
    /// of the current ones. They hold from each worker's next turn; time limits hold for what
    /// begins after it. One call at a time takes effect, and none undoes another.
    pub fn reload(&self, change: impl FnOnce(&LiveSettings) -> LiveSettings) -> PendingReload {
        let (pending, reload) = mpsc::sync_channel(1);
        let mut live = self.shared.live.lock();
        *live = Arc::new(change(&live));
        self.to_all(|| {
            Mail::Reload(Reload {
                live: Arc::clone(&live),
                pending: pending.clone(),
            })
        });
        PendingReload(reload)
    }

    /// Sets the handler that fetches key sets when a token names an unknown key. Only the first
    /// call counts. Without a handler, such tokens are refused at once.
    pub fn fetch_keys_with(&self, fetcher: Box<KeyFetcher>) {
        self.shared.identity.key_fetch.set_fetcher(fetcher);
    }

    /// Sets who decides on logins, if [`Settings::login_check`](crate::Settings::login_check) is
    /// set. Only the first call counts.
    pub fn check_logins_with(&self, checker: Box<dyn LoginChecker>) {
        let _ = self.shared.identity.login_checker.set(checker);
    }

    /// Lets the page publish. Only the first call counts.
    pub fn open_demo(&self, page: DemoPage) {
        let _ = self.shared.demo.set(page);
    }

    /// Tells all clients to reconnect, and answers new streams with 503, until
    /// [`resume`](Self::resume) is called: clients are to go to another server.
    pub fn pause(&self) {
        if !self.shared.paused.swap(true, Ordering::Relaxed) {
            self.to_all(|| Mail::Drain { ends: false });
        }
    }

    /// Takes streams again.
    pub fn resume(&self) {
        self.shared.paused.store(false, Ordering::Relaxed);
    }

    /// Sets what `/readyz` of the public listener says while the server takes streams: whether new
    /// clients should come here.
    pub fn set_ready(&self, is_ready: bool) {
        self.shared.unready.store(!is_ready, Ordering::Relaxed);
    }

    /// Starts to drain the server; see [`crate::Server::join`].
    pub fn drain(&self) {
        if !self.shared.draining.swap(true, Ordering::Relaxed) {
            self.to_all(|| Mail::Drain { ends: true });
        }
    }

    /// Lets clients publish, as their identities allow: events with payloads of up to
    /// `event_bytes_max` go to `publisher`, on a thread of their own. Only the first call counts.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn publish_for_clients(
        &self,
        publisher: Box<dyn EventPublisher>,
        event_bytes_max: usize,
    ) -> io::Result<()> {
        let publishing = ClientPublishing::start(publisher, event_bytes_max)?;
        if let Err(another) = self.shared.client_publishing.set(publishing) {
            another.end();
        }
        Ok(())
    }

    /// Returns who is online; `None` if the server does not keep it.
    pub fn presence(&self) -> Option<&Presence> {
        self.shared.presence.as_deref()
    }

    /// Takes what has changed, and tells what is due. To be called every tenth of a second, from
    /// one thread, with the time since the first call.
    pub fn tick_presence(&self, now: Millis) {
        if let Some(presence) = &self.shared.presence {
            presence.tick(&self.shared.router, now);
        }
    }

    /// Sends mail to each worker.
    pub(crate) fn to_all(&self, mail: impl Fn() -> Mail) {
        for mailbox in &self.shared.router.mailboxes().mailboxes {
            mailbox.insert(mail());
        }
    }

    /// Sends mail to each worker that has some of these sessions.
    pub(crate) fn by_worker(&self, sessions: &[SessionRef], mail: impl Fn(Vec<SlotKey>) -> Mail) {
        let mut sessions = sessions.to_vec();
        sessions.sort_unstable();
        for group in sessions.chunk_by(|a, b| a.worker() == b.worker()) {
            let keys = group.iter().map(|session| session.key()).collect();
            self.shared.mailbox(group[0].worker()).insert(mail(keys));
        }
    }
}
