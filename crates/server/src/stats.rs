//! Metrics of a worker. Each worker writes its own block with plain stores; readers sum the blocks.

use graph::Id;
use parking_lot::Mutex;
use reactor::{Counters, Latencies, LatencyHistogram, Snapshot};
use router::Counts;
use wire::transport::Transport;

use crate::access_log::AccessLogCounts;

/// Ids remembered as closed for being slow, per worker. The rarest makes room for a new one.
const SLOW_IDS_MAX: usize = 32;

reactor::metrics! {
    /// A metric of a worker.
    pub enum Metric {
        Gauge "connections" [] "Open connections, including sessions." { Connections }
        Gauge "sessions" ["transport"] "Open sessions, by transport." {
            SessionsSse = "sse", SessionsNdjson = "ndjson", SessionsTest = "test",
            SessionsWebSocket = "websocket",
            SessionsPoll = "poll",
        }
        Gauge "backlog_sessions" []
            "Sessions with data that waits because the send buffer of the socket is full."
            { BacklogSessions }
        Gauge "backlog_bytes" []
            "Bytes that wait because send buffers of sockets are full." { BacklogBytes }
        Gauge "buffer_bytes" []
            "Bytes that count against --buffer-bytes: backlogs and their frames, what the kernel \
             keeps for full sockets (an estimate), input that has not arrived whole, unfinished \
             TLS records and handshakes, replays."
            { BufferBytes }
        Counter "buffer_give_ways" ["by"]
            "Connections that gave way because there were more than --buffer-bytes. Close, \
             catch_up, drop_oldest, latest: sessions that did not read, by their policy. Input: \
             refused, as their request had not arrived whole, and all of these together took more \
             than that or 64 MiB. Stalled: closed, as their socket took nothing and nothing else \
             could be freed."
        {
            GaveWayClose = "close", GaveWayCatchUp = "catch_up",
            GaveWayDropOldest = "drop_oldest", GaveWayLatest = "latest",
            GaveWayInput = "input", GaveWayStalled = "stalled",
        }
        Counter "connections_accepted" [] "Connections accepted." { Accepted }
        Counter "connections_refused" ["limit"]
            "Connections answered with 503, by the limit that was reached."
        {
            RefusedServer = "server", RefusedAddress = "address", RefusedBuffers = "buffers",
        }
        Counter "accept_pauses" []
            "Times that accepting connections paused because the process ran out of file \
             descriptors."
            { AcceptPauses }
        Counter "proxy_headers_rejected" []
            "Connections of trusted proxies that were closed because they did not begin with a \
             PROXY protocol header."
            { ProxyHeadersRejected }
        Counter "logins" [] "Sessions opened." { Logins }
        Counter "logins_denied" ["reason"]
            "Stream requests that were refused because of the identity of the client, by reason."
        {
            DeniedNone = "no_credential", DeniedSeveral = "several_credentials",
            DeniedMalformed = "malformed", DeniedUntrustedPeer = "untrusted_peer",
            DeniedAlgorithm = "algorithm", DeniedUnknownKey = "unknown_key",
            DeniedSignature = "signature", DeniedExpired = "expired", DeniedClaim = "claim",
            DeniedNoSubject = "no_subject", DeniedScope = "scope", DeniedRevoked = "revoked",
            DeniedTicket = "ticket", DeniedBanned = "banned", DeniedDeclined = "declined",
            DeniedUndecided = "undecided",
        }
        Counter "client_messages" [] "Messages that clients have sent over WebSocket."
            { ClientMessages }
        Counter "client_publishes" ["outcome"]
            "Events that clients published over WebSocket, by outcome. Denied: their identity does \
             not allow it. Limited: too many, by session, by address or in all. Invalid: too large \
             or not well-formed. Failed: not published, or not known to be."
        {
            ClientPublishesAccepted = "accepted", ClientPublishesDenied = "denied",
            ClientPublishesLimited = "limited", ClientPublishesInvalid = "invalid",
            ClientPublishesFailed = "failed",
        }
        Counter "requests_answered" []
            "Requests other than streams that were answered without an error." { RequestsAnswered }
        Counter "requests_rejected" [] "Requests answered with an error." { RequestsRejected }
        Counter "connections_closed" ["reason"] "Connections closed, by reason." {
            ClosedPeer = "peer", ClosedReset = "reset", ClosedTimeout = "timeout",
            ClosedSlow = "slow", ClosedRejected = "rejected", ClosedDone = "done",
            ClosedKicked = "kicked", ClosedExpired = "expired", ClosedRevoked = "revoked",
            ClosedDrain = "drain",
        }
        Counter "deliveries" ["outcome"]
            "Events at single sessions, by outcome. Written: the socket took it. Queued: it waits \
             behind a full socket. Shed: the session was slow or closed, or its worker overloaded, \
             or it is fed from a history that does not store the event. Lost: it was queued when \
             the session closed, or gave way to others."
        {
            Deliveries = "written", DeliveriesQueued = "queued", DeliveriesShed = "shed",
            DeliveriesLost = "lost",
        }
        Counter "resumes" ["outcome"]
            "Streams that began with a cursor, by outcome. Complete: the client got all that it \
             missed. Others: events may be missing, and the client was told so. Restart: its \
             cursor was of another run. Expired: the history no longer went back as far. Unknown: \
             it was not a cursor of this server."
        {
            ResumesComplete = "complete", ResumesRestart = "restart", ResumesExpired = "expired",
            ResumesUnknown = "unknown",
        }
        Gauge "sessions_replaying" [] "Sessions that are fed from the history."
            { SessionsReplaying }
        Counter "events_replayed" [] "Events sent to single sessions from the history."
            { EventsReplayed }
        Counter "deliveries_dropped" ["policy"]
            "Events dropped for sessions that read slowly. Drop_oldest: to make room for later \
             ones. Latest: replaced by a later one of the same subject and type."
        {
            DroppedOldest = "drop_oldest", DroppedLatest = "latest",
        }
        Counter "catch_ups" []
            "Times that a session read on from the history, because it read too slowly for live \
             events or its worker was overloaded."
            { CatchUps }
        Counter "gaps" [] "Notices that tell a client how many of its events were lost or dropped."
            { Gaps }
        Counter "presence_notices" [] "Notices to sessions that an id is online or offline."
            { PresenceNotices }
        Counter "presence_snapshots" [] "Snapshots of presence that were sent to sessions."
            { PresenceSnapshots }
        Gauge "tls_connections" [] "Open connections whose TLS handshake is complete."
            { TlsConnections }
        Counter "tls_handshakes" ["kind"]
            "TLS handshakes that were completed. Resumed: with a session ticket, and without the \
             cost of a signature."
        {
            TlsFull = "full", TlsResumed = "resumed",
        }
        Counter "tls_handshake_failures" ["reason"]
            "TLS handshakes that failed. Alert: the client refused, for example because it does \
             not trust the certificate. Incompatible: no common version, cipher or protocol."
        {
            TlsFailedPlain = "plain_http", TlsFailedNotTls = "not_tls",
            TlsFailedTooLarge = "too_large", TlsFailedAlert = "alert",
            TlsFailedIncompatible = "incompatible", TlsFailedMalformed = "malformed",
            TlsFailedTimeout = "timeout", TlsFailedEnded = "ended",
            TlsFailedInternal = "internal",
        }
        Time "tls_handshake_seconds" [] "Busy seconds spent in TLS handshakes."
            { TlsHandshakeTime }
        Counter "heartbeats" [] "Heartbeats written to idle sessions." { Heartbeats }
        Counter "bytes_read" [] "Bytes received from clients." { BytesRead }
        Counter "bytes_written" [] "Bytes written to client sockets." { BytesWritten }
        Gauge "mailbox_messages" []
            "Messages that wait in the worker's mailbox." { MailboxMessages }
        Gauge "mailbox_bytes" []
            "Bytes of events in the worker's mailbox and in the fan-out under way." { MailboxBytes }
        Time "stage_seconds" ["stage"] "Busy seconds by stage, extrapolated from sampled turns." {
            StageAccept = "accept", StageSignals = "signals", StageMail = "mail",
            StageFanOut = "fan_out", StageDeadlines = "deadlines", StageClosing = "closing",
        }
        Counter "system_calls" ["call"]
            "System calls on the data path, by call. Calls of epoll_wait are counted as turns."
        {
            Sends = "send", Receives = "recv", Accepts = "accept", Watches = "epoll_ctl",
            Shutdowns = "shutdown", Closes = "close",
        }
    }
}

/// The counters of one worker.
pub(crate) type WorkerCounters = Counters<Metric, { Metric::ALL.len() }>;

impl Metric {
    /// Returns the gauge of the open sessions of a transport.
    pub(crate) const fn sessions(transport: Transport) -> Self {
        match transport {
            Transport::Sse => Self::SessionsSse,
            Transport::Ndjson => Self::SessionsNdjson,
            Transport::Test => Self::SessionsTest,
            Transport::WebSocket => Self::SessionsWebSocket,
        }
    }
}

/// Metrics of one worker. Written by the worker, read by any thread.
#[derive(Debug, Default)]
pub struct WorkerStats {
    pub(crate) counters: WorkerCounters,
    /// From the acceptance of the events of a parcel to the write of its last frame.
    pub(crate) delivery_latency: LatencyHistogram,
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

    /// Returns a metric's value.
    pub fn get(&self, metric: Metric) -> u64 {
        self.counters.get(metric)
    }

    /// Counts a refused session, if its reason has a metric.
    pub(crate) fn denied(&self, reason: Option<Metric>) {
        if let Some(metric) = reason {
            self.add(metric, 1);
        }
    }

    /// Counts the results of deliveries. This happens before their publishers are woken, so the
    /// metrics include every receipt.
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

/// Metrics of all workers at one time.
#[derive(Debug, Clone)]
pub struct ServerStats {
    /// The metrics of [`Metric::ALL`], and those that external workers bring.
    pub metrics: Snapshot,
    /// Times from the acceptance of events to the write of the last frame for each worker
    /// concerned.
    pub delivery_latency: Latencies,
    /// Counts of the access log, if there is one.
    pub access_log: Option<AccessLogCounts>,
    /// Ids whose sessions were closed as slow, with how often, most often first.
    pub slow: Vec<(Id, u64)>,
    /// Most bytes that buffers may take.
    pub buffer_limit_bytes: usize,
}

impl ServerStats {
    pub(crate) fn of<'a>(
        workers: impl Iterator<Item = &'a WorkerStats> + Clone,
        buffer_limit_bytes: usize,
    ) -> Self {
        let mut slow: Vec<(Id, u64)> = Vec::new();
        for (id, count) in workers.clone().flat_map(|stats| stats.slow.lock().clone()) {
            match slow.iter_mut().find(|(known, _)| *known == id) {
                Some((_, sum)) => *sum += count,
                None => slow.push((id, count)),
            }
        }
        slow.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        slow.truncate(SLOW_IDS_MAX);
        let mut delivery_latency = Latencies::default();
        for stats in workers.clone() {
            delivery_latency.add(&stats.delivery_latency.read());
        }
        Self {
            delivery_latency,
            access_log: None,
            metrics: Snapshot::of(workers.map(|stats| &stats.counters)),
            slow,
            buffer_limit_bytes,
        }
    }

    /// Returns the sum of a metric over all workers.
    pub fn total(&self, metric: Metric) -> u64 {
        let place = self.metrics.find(&metric.describe());
        place.map_or(0, |place| self.metrics.total(place))
    }
}
