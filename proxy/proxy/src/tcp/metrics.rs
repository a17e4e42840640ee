//! Metrics of a worker.

use reactor::Counters;

reactor::metrics! {
    /// A metric of a worker.
    pub enum Metric {
        Gauge "connections" [] "Open client connections." { Connections }
        Counter "connections_accepted" [] "Connections accepted." { Accepted }
        Counter "connections_refused" ["limit"]
            "Connections closed at once because a limit was reached, by limit."
        {
            RefusedListener = "listener", RefusedSource = "source",
        }
        Counter "accept_pauses" []
            "Times that accepting connections paused because the process ran out of file \
             descriptors."
            { AcceptPauses }
        Counter "connections_closed" ["reason"]
            "Accepted connections that were closed, by reason. Refused connections are not \
             included."
        {
            ClosedDone = "done", ClosedReset = "reset", ClosedTimeout = "timeout",
            ClosedNoBackend = "no_backend", ClosedHeader = "header", ClosedDrain = "drain",
        }
        Counter "connects" []
            "Connection attempts to backends for clients, including retries." { Connects }
        Counter "connects_failed" []
            "Connection attempts to backends that failed." { ConnectsFailed }
        Counter "connect_retries" []
            "Connection attempts to backends that were made because an earlier attempt for the \
             same client failed."
            { Retries }
        Counter "bytes_read" [] "Bytes received from clients and backends." { BytesRead }
        Counter "relayed_bytes" ["direction"]
            "Bytes passed on, by direction: up to backends, down to clients."
        {
            BytesUp = "up", BytesDown = "down",
        }
        Counter "bytes_written" []
            "Bytes written to the sockets of clients and backends." { BytesWritten }
        Counter "spliced_bytes" []
            "Bytes passed on through pipes, without a copy into the process." { BytesSpliced }
        Gauge "pipes" [] "Pipes in use or kept for reuse." { Pipes }
        Counter "access_lines_lost" []
            "Lines dropped from the access log because its file was too slow." { AccessLinesLost }
        Gauge "mailbox_messages" []
            "Messages that wait in the worker's mailbox." { MailboxMessages }
        Time "stage_seconds" ["stage"] "Busy seconds by stage, extrapolated from sampled turns." {
            StageAccept = "accept", StageSignals = "signals", StageMail = "mail",
            StageDeadlines = "deadlines", StageChecks = "checks", StageClosing = "closing",
        }
        Counter "system_calls" ["call"]
            "System calls on the data path, by call. Calls of epoll_wait are counted as turns."
        {
            Accepts = "accept", Dials = "connect", Receives = "recv", Sends = "send",
            Splices = "splice", Watches = "epoll_ctl", Shutdowns = "shutdown", Closes = "close",
        }
    }
}

/// One worker's counters. Written by the worker, read by any thread.
pub(crate) type WorkerCounters = Counters<Metric, { Metric::ALL.len() }>;
