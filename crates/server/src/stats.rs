//! What a worker counts. Each worker writes its own block with plain stores; readers sum the blocks.

use graph::Id;
use parking_lot::Mutex;
use reactor::{Counters, Snapshot};
use router::Counts;

/// Ids remembered as closed for being slow, per worker. The rarest makes room for a new one.
const SLOW_IDS_MAX: usize = 32;

reactor::metrics! {
    /// A metric that each worker keeps.
    pub enum Metric {
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
}

/// One worker's metrics. Written by the worker, read by anybody.
#[derive(Debug, Default)]
pub struct WorkerStats {
    pub(crate) counters: Counters<Metric, { Metric::ALL.len() }>,
    slow: Mutex<Vec<(Id, u64)>>,
}

impl WorkerStats {
    /// Adds to a metric.
    pub(crate) fn add(&self, metric: Metric, count: u64) {
        self.counters.add(metric, count);
    }

    /// Subtracts from a gauge.
    pub(crate) fn take(&self, metric: Metric, count: u64) {
        self.counters.take(metric, count);
    }

    /// A metric's value.
    pub fn get(&self, metric: Metric) -> u64 {
        self.counters.get(metric)
    }

    /// Counts what became of events. Before their publishers are told: who has a receipt finds it here.
    pub(crate) fn delivered(&self, counts: Counts) {
        self.add(Metric::Deliveries, counts.written);
        self.add(Metric::DeliveriesQueued, counts.queued);
        self.add(Metric::DeliveriesShed, counts.shed);
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

/// All workers' metrics at one time.
#[derive(Debug, Clone)]
pub struct ServerStats {
    /// The metrics, in the order of [`Metric::ALL`].
    pub metrics: Snapshot,
    /// Ids closed for being slow and how often, most often first.
    pub slow: Vec<(Id, u64)>,
}

impl ServerStats {
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
        Self {
            metrics: Snapshot::of(workers.map(|stats| &stats.counters)),
            slow,
        }
    }

    /// The sum of a metric over all workers.
    pub fn total(&self, metric: Metric) -> u64 {
        self.metrics.total(metric as usize)
    }
}
