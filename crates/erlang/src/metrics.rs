//! Counters of the node, for the server's metrics.
//!
//! Metrics that the server's workers also have must have the same name, label and help, and are
//! summed with theirs.

use reactor::{Counters, MetricDescription};

reactor::metrics! {
    /// A metric of the Erlang node.
    pub enum Metric {
        Gauge "sessions" ["transport"] "Open sessions, by transport." { Sessions = "erlang" }
        Counter "logins" [] "Sessions opened." { Logins }
        Counter "bytes_read" [] "Bytes received from clients." { BytesRead }
        Counter "bytes_written" [] "Bytes written to client sockets." { BytesWritten }
        Counter "system_calls" ["call"]
            "System calls on the data path, by call. Calls of epoll_wait are counted as turns."
        {
            Sends = "send", Receives = "recv", Accepts = "accept", Watches = "epoll_ctl",
        }
        Counter "accept_pauses" []
            "Times that accepting connections paused because the process ran out of file \
             descriptors."
            { AcceptPauses }
        Time "stage_seconds" ["stage"]
            "Busy seconds by stage, extrapolated from sampled turns."
            { StageAccept = "accept", StageSignals = "signals" }
        Gauge "erlang_nodes" [] "Connected Erlang nodes." { Nodes }
        Counter "erlang_messages" [] "Messages received from Erlang nodes." { Messages }
        Counter "erlang_log_failures" []
            "Events and changes of Erlang nodes that the log of the cluster refused or did not \
             confirm."
            { LogFailures }
        Counter "erlang_logins_unanswered" []
            "Logins of clients that the Erlang process did not answer in time."
            { LoginsUnanswered }
        Counter "erlang_refused" ["reason"]
            "Connections and messages from Erlang nodes that were refused, by reason."
        {
            RefusedCookie = "cookie", RefusedVersion = "version", RefusedName = "name",
            RefusedHandshake = "handshake", RefusedHandshakeSlow = "handshake_slow",
            RefusedSilent = "silent", RefusedTooLarge = "too_large", RefusedMessage = "message",
            RefusedTerm = "term", RefusedNotUnderstood = "not_understood", RefusedSlow = "slow",
            RefusedDeclined = "declined", RefusedCrowded = "crowded",
        }
    }
}

/// The counters of a node. Written by the node's thread, read by any.
pub(crate) type NodeCounters = Counters<Metric, { Metric::ALL.len() }>;

/// Describes the metrics of a node, for a server that runs none.
pub fn metric_descriptions() -> Vec<MetricDescription> {
    Metric::ALL.iter().map(|metric| metric.describe()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_shared_with_the_server_have_the_same_description() {
        let server: Vec<_> = server::Metric::ALL.iter().map(|m| m.describe()).collect();
        let mut shared = 0;
        for own in metric_descriptions() {
            for known in server.iter().filter(|known| known.name == own.name) {
                assert_eq!((own.kind, own.help), (known.kind, known.help));
                shared += usize::from(known.label == own.label);
            }
        }
        assert!(shared > 10, "{shared}");
    }
}
