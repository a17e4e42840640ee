//! Metrics of a node in a cluster.

use replication::Status;

use super::text::Text;

/// Writes them.
pub(super) fn write(text: &mut Text, status: &Status) {
    let engine = &status.engine;
    let followers = engine.followers.iter();
    let followers_current = followers.clone().filter(|it| it.is_current).count();
    let follower_lag = followers.map(|it| it.lag).max().unwrap_or(0);
    text.flag(
        "log_connected",
        "1 while the engine of the cluster's log can be reached, otherwise 0.",
        status.is_connected,
    );
    text.flag(
        "log_ready",
        "1 while the node is ready as far as the cluster's log is concerned, otherwise 0.",
        status.not_ready.is_none(),
    );
    text.gauge(
        "log_lag_seconds",
        "Time by which the node is behind the cluster's log.",
        status.lag.as_secs_f64(),
    );
    text.gauge(
        "log_applied_sequence",
        "Sequence of the last entry of the cluster's log that the node has applied.",
        status.applied.number() as f64,
    );
    text.gauge(
        "log_last_sequence",
        "Sequence of the last entry that is known to be in the cluster's log.",
        status.last.number() as f64,
    );
    text.gauge(
        "log_in_flight_entries",
        "Entries that the node has sent and not yet read back.",
        status.in_flight as f64,
    );
    text.gauge(
        "log_waiting_bytes",
        "Bytes of events and changes that wait for the cluster's log or are on their way.",
        status.waiting_bytes as f64,
    );
    text.gauge(
        "log_bytes",
        "Bytes of the cluster's log.",
        engine.bytes as f64,
    );
    text.gauge(
        "log_bytes_max",
        "Most bytes that the cluster's log may have; 0 without a limit.",
        engine.bytes_max as f64,
    );
    text.flag(
        "log_has_leader",
        "1 while the engine names a leader of the cluster's log, otherwise 0.",
        engine.leader.is_some(),
    );
    text.gauge(
        "log_leader_silent_seconds",
        "Time since the leader of the cluster's log last answered the node.",
        engine.leaderless.as_secs_f64(),
    );
    text.gauge(
        "log_followers",
        "Servers that follow the leader of the cluster's log.",
        engine.followers.len() as f64,
    );
    text.gauge(
        "log_followers_current",
        "Servers of them that keep up.",
        followers_current as f64,
    );
    text.gauge(
        "log_follower_lag_entries",
        "Entries that the slowest of them lacks.",
        follower_lag as f64,
    );
    text.gauge(
        "cluster_nodes",
        "Nodes of the cluster, this one included.",
        status.nodes.len() as f64,
    );
    text.counter(
        "log_entries",
        "Entries of the cluster's log that the node has applied.",
        status.entries,
    );
    text.counter(
        "log_skipped",
        "Entries of the cluster's log that do not count: repeats, and entries out of turn.",
        status.skipped,
    );
    text.counter(
        "log_resent",
        "Entries that the node has sent to the cluster's log again.",
        status.resent,
    );
    text.counter(
        "log_connects",
        "Connections to the engine that the node has made, the first one included.",
        engine.connects,
    );
    text.counter(
        "log_disconnects",
        "Connections to the engine that the node has lost.",
        engine.disconnects,
    );
    text.counter(
        "log_messages_dropped",
        "Messages of the engine that were dropped because the node did not read them in time. \
             It asks for those of the log again.",
        engine.dropped,
    );
    text.counter(
        "log_consumers",
        "Consumers that the node has made to read the cluster's log, the first one included.",
        engine.consumers,
    );
    text.counter(
        "log_consumers_silent",
        "Consumers that the node replaced because they were silent.",
        engine.consumers_silent,
    );
    text.counter(
        "log_consumers_skipped",
        "Consumers that the node replaced because a message was missing or they were gone.",
        engine.consumers_skipped,
    );
}
