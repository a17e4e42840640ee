//! What a worker counts. Each worker writes its own block with plain stores; readers sum the blocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use graph::Id;
use parking_lot::Mutex;
use router::Counts;

/// Ids remembered as closed for being slow, per worker. The rarest makes room for a new one.
const SLOW_IDS_MAX: usize = 32;

/// Whether a figure only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows from zero at the start.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Time that only grows, in nanoseconds. Told in seconds.
    Time,
    /// Polls that returned as many events as the label says; only grows. Told as a histogram.
    Bucket,
}

/// A figure's name and meaning.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    /// In Prometheus terms, without the `encke_` prefix and the `_total` suffix.
    pub name: &'static str,
    /// The label that tells figures of one name apart, with its value.
    pub label: Option<(&'static str, &'static str)>,
    /// Whether it only grows.
    pub kind: Kind,
    /// One sentence.
    pub help: &'static str,
}

macro_rules! figures {
    ($($figure:ident = $kind:ident $name:literal $([$label:literal = $value:literal])? $help:literal;)*) => {
        /// A figure that each worker keeps.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Figure {
            $(#[doc = $help] $figure,)*
        }

        impl Figure {
            /// All figures; those of one name stand together.
            pub const ALL: &[Self] = &[$(Self::$figure),*];

            /// The figure's name and meaning.
            pub const fn describe(self) -> Description {
                match self {
                    $(Self::$figure => Description {
                        name: $name,
                        label: figures!(@label $($label = $value)?),
                        kind: Kind::$kind,
                        help: $help,
                    },)*
                }
            }
        }
    };
    (@label $label:literal = $value:literal) => { Some(($label, $value)) };
    (@label) => { None };
}

figures! {
    Connections = Gauge "connections" "Connections open, sessions included.";
    SessionsSse = Gauge "sessions" ["transport" = "sse"] "Sessions logged in.";
    SessionsNdjson = Gauge "sessions" ["transport" = "ndjson"] "Sessions logged in.";
    SessionsTest = Gauge "sessions" ["transport" = "test"] "Sessions logged in.";
    SessionsErlang = Gauge "sessions" ["transport" = "erlang"] "Sessions logged in.";
    BacklogSessions = Gauge "backlog_sessions" "Sessions whose socket is full.";
    BacklogBytes = Gauge "backlog_bytes" "Bytes that sessions still owe their sockets.";
    Accepted = Counter "connections_accepted" "Connections accepted.";
    RefusedServer = Counter "connections_refused" ["limit" = "server"] "Connections answered 503 because a limit was reached.";
    RefusedAddress = Counter "connections_refused" ["limit" = "address"] "Connections answered 503 because a limit was reached.";
    AcceptPauses = Counter "accept_pauses" "Times that accepting paused for want of descriptors.";
    Logins = Counter "logins" "Sessions that logged in.";
    RequestsAnswered = Counter "requests_answered" "Public requests answered with a page, a preflight or a relayed call.";
    RequestsRejected = Counter "requests_rejected" "Public requests answered with an error.";
    ClosedPeer = Counter "connections_closed" ["reason" = "peer"] "Connections closed.";
    ClosedReset = Counter "connections_closed" ["reason" = "reset"] "Connections closed.";
    ClosedTimeout = Counter "connections_closed" ["reason" = "timeout"] "Connections closed.";
    ClosedSlow = Counter "connections_closed" ["reason" = "slow"] "Connections closed.";
    ClosedRejected = Counter "connections_closed" ["reason" = "rejected"] "Connections closed.";
    ClosedDone = Counter "connections_closed" ["reason" = "done"] "Connections closed.";
    ClosedKicked = Counter "connections_closed" ["reason" = "kicked"] "Connections closed.";
    ClosedDrain = Counter "connections_closed" ["reason" = "drain"] "Connections closed.";
    Deliveries = Counter "deliveries" ["outcome" = "written"] "Events by what became of them at a session.";
    DeliveriesQueued = Counter "deliveries" ["outcome" = "queued"] "Events by what became of them at a session.";
    DeliveriesShed = Counter "deliveries" ["outcome" = "shed"] "Events by what became of them at a session.";
    DeliveriesLost = Counter "deliveries" ["outcome" = "lost"] "Events by what became of them at a session.";
    Heartbeats = Counter "heartbeats" "Heartbeats written.";
    BytesRead = Counter "bytes_read" "Bytes that clients sent.";
    BytesWritten = Counter "bytes_written" "Bytes that sockets took.";
    MailboxMessages = Gauge "mailbox_messages" "Messages that wait for the worker's next turn.";
    MailboxBytes = Gauge "mailbox_bytes" "Bytes of events that the worker has been given and is not through with.";
    Turns = Counter "turns" "Passes of the worker's loop, each with one epoll_wait.";
    Signals = Counter "poll_events" "Events that the poller reported.";
    Polls0 = Bucket "events_per_poll" ["events" = "0"] "Polls by how many events they returned.";
    Polls1 = Bucket "events_per_poll" ["events" = "1"] "Polls by how many events they returned.";
    Polls2 = Bucket "events_per_poll" ["events" = "2-3"] "Polls by how many events they returned.";
    Polls4 = Bucket "events_per_poll" ["events" = "4-7"] "Polls by how many events they returned.";
    Polls8 = Bucket "events_per_poll" ["events" = "8-15"] "Polls by how many events they returned.";
    Polls16 = Bucket "events_per_poll" ["events" = "16-31"] "Polls by how many events they returned.";
    Polls32 = Bucket "events_per_poll" ["events" = "32-63"] "Polls by how many events they returned.";
    Polls64 = Bucket "events_per_poll" ["events" = "64-127"] "Polls by how many events they returned.";
    Polls128 = Bucket "events_per_poll" ["events" = "128-255"] "Polls by how many events they returned.";
    Polls256 = Bucket "events_per_poll" ["events" = "256"] "Polls by how many events they returned.";
    Busy = Time "worker_seconds" ["state" = "busy"] "Time of the workers. What passes while one waits counts when it wakes.";
    Waiting = Time "worker_seconds" ["state" = "waiting"] "Time of the workers. What passes while one waits counts when it wakes.";
    StageAccept = Time "stage_seconds" ["stage" = "accept"] "Busy time by what it went into, projected from the turns that were timed.";
    StageSignals = Time "stage_seconds" ["stage" = "signals"] "Busy time by what it went into, projected from the turns that were timed.";
    StageMail = Time "stage_seconds" ["stage" = "mail"] "Busy time by what it went into, projected from the turns that were timed.";
    StageFanOut = Time "stage_seconds" ["stage" = "fan_out"] "Busy time by what it went into, projected from the turns that were timed.";
    StageDeadlines = Time "stage_seconds" ["stage" = "deadlines"] "Busy time by what it went into, projected from the turns that were timed.";
    StageClosing = Time "stage_seconds" ["stage" = "closing"] "Busy time by what it went into, projected from the turns that were timed.";
    Sends = Counter "system_calls" ["call" = "send"] "System calls on the data path beside those that wait.";
    Receives = Counter "system_calls" ["call" = "recv"] "System calls on the data path beside those that wait.";
    Accepts = Counter "system_calls" ["call" = "accept"] "System calls on the data path beside those that wait.";
    Watches = Counter "system_calls" ["call" = "epoll_ctl"] "System calls on the data path beside those that wait.";
    Shutdowns = Counter "system_calls" ["call" = "shutdown"] "System calls on the data path beside those that wait.";
    Closes = Counter "system_calls" ["call" = "close"] "System calls on the data path beside those that wait.";
    ErlangNodes = Gauge "erlang_nodes" "Erlang nodes connected.";
    ErlangMessages = Counter "erlang_messages" "Messages that came from Erlang nodes.";
    ErlangRefusedCookie = Counter "erlang_refused" ["reason" = "cookie"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedVersion = Counter "erlang_refused" ["reason" = "version"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedName = Counter "erlang_refused" ["reason" = "name"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedHandshake = Counter "erlang_refused" ["reason" = "handshake"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedHandshakeSlow = Counter "erlang_refused" ["reason" = "handshake_slow"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedSilent = Counter "erlang_refused" ["reason" = "silent"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedTooLarge = Counter "erlang_refused" ["reason" = "too_large"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedMessage = Counter "erlang_refused" ["reason" = "message"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedTerm = Counter "erlang_refused" ["reason" = "term"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedNotUnderstood = Counter "erlang_refused" ["reason" = "not_understood"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedSlow = Counter "erlang_refused" ["reason" = "slow"] "What was not taken from Erlang nodes, connections and messages.";
    ErlangRefusedDeclined = Counter "erlang_refused" ["reason" = "declined"] "What was not taken from Erlang nodes, connections and messages.";
}

impl Figure {
    /// Polls by the bit length of how many events they returned.
    pub(crate) const POLLS: [Self; 10] = [
        Self::Polls0,
        Self::Polls1,
        Self::Polls2,
        Self::Polls4,
        Self::Polls8,
        Self::Polls16,
        Self::Polls32,
        Self::Polls64,
        Self::Polls128,
        Self::Polls256,
    ];
}

/// One worker's figures. Written by the worker, read by anybody.
#[derive(Debug)]
pub struct WorkerStats {
    figures: [AtomicU64; Figure::ALL.len()],
    slow: Mutex<Vec<(Id, u64)>>,
}

impl Default for WorkerStats {
    fn default() -> Self {
        Self {
            figures: std::array::from_fn(|_| AtomicU64::new(0)),
            slow: Mutex::default(),
        }
    }
}

impl WorkerStats {
    /// Adds to a figure. Only the owning worker calls this, so no locked instruction is needed.
    pub(crate) fn add(&self, figure: Figure, count: u64) {
        let cell = &self.figures[figure as usize];
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    /// Counts a poll that returned so many events.
    pub(crate) fn polled(&self, events: usize) {
        self.add(Figure::Turns, 1);
        self.add(Figure::Signals, events as u64);
        let length = (usize::BITS - events.leading_zeros()) as usize;
        self.add(Figure::POLLS[length.min(Figure::POLLS.len() - 1)], 1);
    }

    /// Counts what became of events. Before their publishers are told: who has a receipt finds it here.
    pub(crate) fn delivered(&self, counts: Counts) {
        self.add(Figure::Deliveries, counts.written);
        self.add(Figure::DeliveriesQueued, counts.queued);
        self.add(Figure::DeliveriesShed, counts.shed);
    }

    /// Adds time to a figure.
    pub(crate) fn add_time(&self, figure: Figure, time: Duration) {
        self.add(figure, time.as_nanos() as u64);
    }

    /// Subtracts from a gauge.
    pub(crate) fn take(&self, figure: Figure, count: u64) {
        self.add(figure, count.wrapping_neg());
    }

    /// A figure's value.
    pub fn get(&self, figure: Figure) -> u64 {
        self.figures[figure as usize].load(Ordering::Relaxed)
    }

    /// Remembers an id whose session was closed for being slow. When the list is full, the id seen
    /// least often gives its place and its count, so that a frequent one cannot be missed
    /// (Metwally, Agrawal and El Abbadi 2005, "space saving").
    pub(crate) fn slow(&self, id: Id) {
        let mut slow = self.slow.lock();
        if let Some((_, count)) = slow.iter_mut().find(|(known, _)| *known == id) {
            *count += 1;
        } else if slow.len() < SLOW_IDS_MAX {
            slow.push((id, 1));
        } else if let Some(rarest) = slow.iter_mut().min_by_key(|(_, count)| *count) {
            *rarest = (id, rarest.1 + 1);
        }
    }
}

/// All workers' figures at one time.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// For each worker the figures in the order of [`Figure::ALL`].
    pub workers: Vec<Vec<u64>>,
    /// Ids closed for being slow and how often, most often first.
    pub slow: Vec<(Id, u64)>,
}

impl Snapshot {
    pub(crate) fn of<'a>(workers: impl Iterator<Item = &'a WorkerStats> + Clone) -> Self {
        let mut slow: Vec<(Id, u64)> = Vec::new();
        for (id, count) in workers.clone().flat_map(|stats| stats.slow.lock().clone()) {
            match slow.iter_mut().find(|(known, _)| *known == id) {
                Some((_, sum)) => *sum += count,
                None => slow.push((id, count)),
            }
        }
        slow.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        slow.truncate(SLOW_IDS_MAX);
        let figures = |stats: &WorkerStats| Figure::ALL.iter().map(|&f| stats.get(f)).collect();
        Self {
            workers: workers.map(figures).collect(),
            slow,
        }
    }

    /// The sum of a figure over all workers.
    pub fn total(&self, figure: Figure) -> u64 {
        self.workers
            .iter()
            .map(|figures| figures[figure as usize])
            .sum()
    }
}
