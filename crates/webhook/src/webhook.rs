//! The thread that sends events.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::authorities::Authorities;
use crate::limits::{LOG_INTERVAL, Pace};
use crate::outside::{LoggedFailures, OutsideUrl};
use crate::queue::{Batch, Queue, unix_seconds};
use crate::request::{Message, Requests};
use crate::retry::{Attempts, Failure, Next, Outcome};
use crate::secret::{Secret, signatures};
use crate::stats::WebhookStats;

/// Settings of a webhook.
#[derive(Debug, Clone)]
pub struct Settings {
    /// URL of the receiver.
    pub url: OutsideUrl,
    /// Secrets with which requests are signed, at least one.
    pub secrets: Vec<Secret>,
    /// Authorities that are trusted to issue the receiver's certificate; `None` for those of the
    /// system.
    pub authorities: Option<Authorities>,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Time after which a batch that was not accepted is dropped.
    pub give_up: Duration,
}

/// A running webhook, which sends the events of a [`Queue`] until [`end`](Self::end).
pub struct Webhook {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<Queue>,
    settings: Settings,
    pace: Pace,
    /// Secrets of the settings or of the last reload.
    secrets: Mutex<Arc<[Secret]>>,
    counts: Mutex<Counts>,
    /// Notified when the thread has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    stats: WebhookStats,
    /// Events of the batch that is being sent.
    in_flight: u64,
    has_ended: bool,
}

impl Webhook {
    /// Starts the thread that sends the events of `queue`.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn start(settings: Settings, queue: Arc<Queue>) -> io::Result<Self> {
        Self::start_at(Pace::USUAL, settings, queue)
    }

    pub(crate) fn start_at(pace: Pace, settings: Settings, queue: Arc<Queue>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue,
            secrets: Mutex::new(settings.secrets.clone().into()),
            settings,
            pace,
            counts: Mutex::default(),
            ended: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("webhook".to_owned())
            .spawn(move || {
                run(&for_thread);
                for_thread.counts.lock().has_ended = true;
                for_thread.ended.notify_all();
            })?;
        Ok(Self { shared })
    }

    /// Replaces the secrets, from the next request on. If the receiver has answered 410, events are
    /// sent to it again.
    pub fn reload(&self, secrets: &[Secret]) {
        *self.shared.secrets.lock() = secrets.into();
        self.shared.queue.resume();
    }

    /// Returns the counters.
    pub fn stats(&self) -> WebhookStats {
        let counts = self.shared.counts.lock();
        let queue = self.shared.queue.counts();
        WebhookStats {
            dropped: queue.dropped,
            queued_events: queue.events + counts.in_flight,
            queued_bytes: queue.bytes,
            is_stopped: queue.is_stopped,
            ..counts.stats
        }
    }

    /// Sends the queued events, for 5 s at most, and ends. The server must add no more events.
    pub fn end(&self) {
        let until = Instant::now() + self.shared.pace.flush_time;
        let dropped = self.shared.queue.counts().dropped;
        self.shared.queue.end(until);
        let mut counts = self.shared.counts.lock();
        let is_running = |counts: &mut Counts| !counts.has_ended;
        self.shared
            .ended
            .wait_while_until(&mut counts, is_running, until);
        let in_flight = counts.in_flight;
        drop(counts);
        let queue = self.shared.queue.counts();
        let left = queue.events + in_flight + (queue.dropped - dropped);
        if left > 0 {
            let url = &self.shared.settings.url;
            tracing::warn!(
                "the webhook {url} did not accept {left} events before the server ended"
            );
        }
    }
}

impl Drop for Webhook {
    /// Ends the thread, without waiting for it.
    fn drop(&mut self) {
        self.shared.queue.end(Instant::now());
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("url", &self.shared.settings.url)
            .finish_non_exhaustive()
    }
}

/// Sends batches until the server ends: the thread of a webhook.
fn run(shared: &Shared) {
    let settings = &shared.settings;
    let requests = Requests::new(settings.url.clone(), settings.authorities.as_ref());
    let random = RandomState::new();
    // Unique to this run: a receiver may remember the ids of requests to drop repeats.
    let run = random.hash_one(());
    let mut log = Log::default();
    let mut number = 0_u64;
    while let Some(batch) = shared.queue.next_batch(shared.pace.batch_delay) {
        number += 1;
        let id = match &batch.name {
            // The heir of this node would repeat the request with the same id.
            Some(name) => format!("msg_{name}"),
            None => format!("msg_{run:016x}_{number}"),
        };
        shared.counts.lock().in_flight = batch.events;
        let is_delivered = deliver(shared, &requests, &random, &mut log, &id, &batch);
        if !is_delivered {
            // In this order, so that no event is counted as dropped and as queued.
            shared.counts.lock().in_flight = 0;
            shared.queue.give_up(&batch);
        }
        // A batch that is given up because the server ends is left to the heir.
        if is_delivered || shared.queue.flush_until().is_none() {
            shared.queue.done(&batch);
        }
        log.dropped(&settings.url, shared.queue.counts().dropped);
    }
}

/// Sends a batch until it is accepted. Returns whether it was.
fn deliver(
    shared: &Shared,
    requests: &Requests,
    random: &RandomState,
    log: &mut Log,
    id: &str,
    batch: &Batch,
) -> bool {
    let Shared {
        queue, settings, ..
    } = shared;
    let origin = Instant::now();
    let mut attempts = Attempts::begin(Duration::ZERO, shared.pace.backoff_min);
    loop {
        let left = queue
            .flush_until()
            .map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        // Each attempt is signed with the current time, because receivers refuse old signatures.
        let timestamp = unix_seconds();
        let secrets = Arc::clone(&shared.secrets.lock());
        let message = Message {
            id,
            timestamp,
            signatures: &signatures(&secrets, id, timestamp, &batch.body),
            body: &batch.body,
        };
        let timeout = left.map_or(settings.timeout, |left| left.min(settings.timeout));
        let outcome = requests.send(message, timeout);
        shared.count(&outcome, batch);
        let random = random.hash_one((id, timestamp));
        let next = attempts.next(origin.elapsed(), &outcome, settings.give_up, random);
        log.outcome(&settings.url, &outcome);
        match next {
            Next::Done => return true,
            Next::GiveUp => return false,
            Next::Stop => {
                queue.stop();
                return false;
            }
            Next::RepeatIn(wait) => {
                let was_ending = left.is_some();
                let deadline = Instant::now() + wait;
                // When the server ends, one more attempt is made at once.
                if was_ending {
                    queue.wait_while_ending(deadline);
                } else {
                    queue.wait_until(deadline);
                }
            }
        }
    }
}

impl Shared {
    fn count(&self, outcome: &Outcome, batch: &Batch) {
        let mut counts = self.counts.lock();
        let stats = &mut counts.stats;
        match outcome {
            Outcome::Accepted => {
                stats.accepted += 1;
                stats.delivered += batch.events;
                counts.in_flight = 0;
            }
            Outcome::Gone | Outcome::Failed(Failure::Redirect | Failure::Status { .. }) => {
                stats.refused += 1;
            }
            Outcome::Failed(Failure::Timeout(_) | Failure::Transport(_)) => stats.failed += 1,
        }
    }
}

/// Log of failures: a line when they begin or change, one each 10 minutes, and one when they end.
#[derive(Default)]
struct Log {
    failures: LoggedFailures<Failure>,
    /// Number of dropped events that was logged last, and when.
    dropped: u64,
    dropped_at: Option<Instant>,
}

impl Log {
    fn outcome(&mut self, url: &OutsideUrl, outcome: &Outcome) {
        match outcome {
            Outcome::Accepted => {
                if self.failures.end() {
                    tracing::info!("the webhook {url} accepts events again");
                }
            }
            Outcome::Gone => tracing::error!(
                "the webhook {url} has answered 410 Gone: it gets no events until the \
                 configuration is reloaded (SIGHUP) or the server is started again"
            ),
            Outcome::Failed(failure) if self.failures.is_news(failure) => {
                tracing::warn!("the webhook {url} did not accept events; trying again: {failure}");
            }
            Outcome::Failed(_) => {}
        }
    }

    fn dropped(&mut self, url: &OutsideUrl, dropped: u64) {
        let is_late = self
            .dropped_at
            .is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
        if dropped > self.dropped && is_late {
            let count = dropped - self.dropped;
            tracing::warn!("{count} events for the webhook {url} were dropped");
            self.dropped = dropped;
            self.dropped_at = Some(Instant::now());
        }
    }
}
