//! What a worker counts. Each worker writes its own block with plain stores; readers sum the blocks.

use reactor::Counters;

reactor::metrics! {
    /// A metric that each worker keeps.
    pub enum Metric {
        Connections = Gauge "connections" "Connections open.";
        Accepted = Counter "connections_accepted" "Connections accepted.";
        AcceptPauses = Counter "accept_pauses" "Times that accepting paused for want of descriptors.";
        RequestsAnswered = Counter "requests_answered" "Requests that got the answer.";
        RequestsRejected = Counter "requests_rejected" "Requests that were answered with an error.";
        BytesRead = Counter "bytes_read" "Bytes that clients sent.";
        BytesWritten = Counter "bytes_written" "Bytes that sockets took.";
        MailboxMessages = Gauge "mailbox_messages" "Messages that wait for the worker's next turn.";
        StageAccept = Time "stage_seconds" ["stage" = "accept"] "Busy time by what it went into, projected from the turns that were timed.";
        StageSignals = Time "stage_seconds" ["stage" = "signals"] "Busy time by what it went into, projected from the turns that were timed.";
        StageMail = Time "stage_seconds" ["stage" = "mail"] "Busy time by what it went into, projected from the turns that were timed.";
        StageDeadlines = Time "stage_seconds" ["stage" = "deadlines"] "Busy time by what it went into, projected from the turns that were timed.";
        StageClosing = Time "stage_seconds" ["stage" = "closing"] "Busy time by what it went into, projected from the turns that were timed.";
        Accepts = Counter "system_calls" ["call" = "accept"] "System calls on the data path beside those that wait.";
        Receives = Counter "system_calls" ["call" = "recv"] "System calls on the data path beside those that wait.";
        Sends = Counter "system_calls" ["call" = "send"] "System calls on the data path beside those that wait.";
        Watches = Counter "system_calls" ["call" = "epoll_ctl"] "System calls on the data path beside those that wait.";
        Shutdowns = Counter "system_calls" ["call" = "shutdown"] "System calls on the data path beside those that wait.";
        Closes = Counter "system_calls" ["call" = "close"] "System calls on the data path beside those that wait.";
    }
}

/// One worker's metrics. Written by the worker, read by anybody.
pub type WorkerStats = Counters<Metric, { Metric::ALL.len() }>;
