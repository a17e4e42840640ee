//! What a worker counts. Each worker writes its own block with plain stores; readers sum the blocks.

use reactor::Counters;

reactor::metrics! {
    /// A metric that each worker keeps.
    pub enum Metric {
        Connections = Gauge "connections" "Connections of clients, each with that to its backend.";
        Accepted = Counter "connections_accepted" "Connections accepted.";
        RefusedListener = Counter "connections_refused" ["limit" = "listener"] "Connections closed because a limit was reached.";
        RefusedSource = Counter "connections_refused" ["limit" = "source"] "Connections closed because a limit was reached.";
        AcceptPauses = Counter "accept_pauses" "Times that accepting paused for want of descriptors.";
        ClosedDone = Counter "connections_closed" ["reason" = "done"] "Connections closed that were within the limits.";
        ClosedReset = Counter "connections_closed" ["reason" = "reset"] "Connections closed that were within the limits.";
        ClosedTimeout = Counter "connections_closed" ["reason" = "timeout"] "Connections closed that were within the limits.";
        ClosedNoBackend = Counter "connections_closed" ["reason" = "no_backend"] "Connections closed that were within the limits.";
        ClosedHeader = Counter "connections_closed" ["reason" = "header"] "Connections closed that were within the limits.";
        ClosedDrain = Counter "connections_closed" ["reason" = "drain"] "Connections closed that were within the limits.";
        Connects = Counter "connects" "Connections to backends that were begun for clients.";
        ConnectsFailed = Counter "connects_failed" "Those of them that came to nothing.";
        Retries = Counter "connect_retries" "Those of them that were begun because another had come to nothing.";
        BytesRead = Counter "bytes_read" "Bytes received, from clients and from backends.";
        BytesUp = Counter "relayed_bytes" ["direction" = "up"] "Bytes that were passed on to backends (up) and to clients (down).";
        BytesDown = Counter "relayed_bytes" ["direction" = "down"] "Bytes that were passed on to backends (up) and to clients (down).";
        BytesWritten = Counter "bytes_written" "Bytes that sockets took, of clients and of backends.";
        BytesSpliced = Counter "spliced_bytes" "Those of them that went through a pipe.";
        Pipes = Gauge "pipes" "Pipes held.";
        AccessLinesLost = Counter "access_lines_lost" "Lines of the access log that its file was too slow for.";
        MailboxMessages = Gauge "mailbox_messages" "Messages that wait for the worker's next turn.";
        StageAccept = Time "stage_seconds" ["stage" = "accept"] "Busy time by what it went into, projected from the turns that were timed.";
        StageSignals = Time "stage_seconds" ["stage" = "signals"] "Busy time by what it went into, projected from the turns that were timed.";
        StageMail = Time "stage_seconds" ["stage" = "mail"] "Busy time by what it went into, projected from the turns that were timed.";
        StageDeadlines = Time "stage_seconds" ["stage" = "deadlines"] "Busy time by what it went into, projected from the turns that were timed.";
        StageChecks = Time "stage_seconds" ["stage" = "checks"] "Busy time by what it went into, projected from the turns that were timed.";
        StageClosing = Time "stage_seconds" ["stage" = "closing"] "Busy time by what it went into, projected from the turns that were timed.";
        Accepts = Counter "system_calls" ["call" = "accept"] "System calls on the data path beside those that wait.";
        Dials = Counter "system_calls" ["call" = "connect"] "System calls on the data path beside those that wait.";
        Receives = Counter "system_calls" ["call" = "recv"] "System calls on the data path beside those that wait.";
        Sends = Counter "system_calls" ["call" = "send"] "System calls on the data path beside those that wait.";
        Splices = Counter "system_calls" ["call" = "splice"] "System calls on the data path beside those that wait.";
        Watches = Counter "system_calls" ["call" = "epoll_ctl"] "System calls on the data path beside those that wait.";
        Shutdowns = Counter "system_calls" ["call" = "shutdown"] "System calls on the data path beside those that wait.";
        Closes = Counter "system_calls" ["call" = "close"] "System calls on the data path beside those that wait.";
    }
}

/// One worker's metrics. Written by the worker, read by anybody.
pub type WorkerStats = Counters<Metric, { Metric::ALL.len() }>;
