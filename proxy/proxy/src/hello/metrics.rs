//! Metrics of a worker.

use reactor::Counters;

reactor::metrics! {
    /// A metric of a worker.
    pub enum Metric {
        Gauge "connections" [] "Open connections." { Connections }
        Counter "connections_accepted" [] "Connections accepted." { Accepted }
        Counter "accept_pauses" []
            "Times that accepting connections paused because the process ran out of file \
             descriptors."
            { AcceptPauses }
        Counter "requests_answered" []
            "Requests answered with the configured response." { RequestsAnswered }
        Counter "requests_rejected" [] "Requests answered with an error." { RequestsRejected }
        Counter "bytes_read" [] "Bytes received from clients." { BytesRead }
        Counter "bytes_written" [] "Bytes written to client sockets." { BytesWritten }
        Gauge "mailbox_messages" []
            "Messages that wait in the worker's mailbox." { MailboxMessages }
        Time "stage_seconds" ["stage"] "Busy seconds by stage, extrapolated from sampled turns." {
            StageAccept = "accept", StageSignals = "signals", StageMail = "mail",
            StageDeadlines = "deadlines", StageClosing = "closing",
        }
        Counter "system_calls" ["call"]
            "System calls on the data path, by call. Calls of epoll_wait are counted as turns."
        {
            Accepts = "accept", Receives = "recv", Sends = "send", Watches = "epoll_ctl",
            Shutdowns = "shutdown", Closes = "close",
        }
    }
}

/// One worker's counters. Written by the worker, read by any thread.
pub(crate) type WorkerCounters = Counters<Metric, { Metric::ALL.len() }>;
