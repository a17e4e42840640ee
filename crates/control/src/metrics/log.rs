//! Metrics of a node in a cluster.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use replication::Status;

use super::encode::gauge;

/// Writes them for Prometheus.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> fmt::Result {
    let flag = |is: bool| f64::from(u8::from(is));
    let engine = &status.engine;
    let followers = engine.followers.iter();
    let followers_current = followers.clone().filter(|it| it.is_current).count();
    let follower_lag = followers.map(|it| it.lag).max().unwrap_or(0);
    let gauges = [
        (
            "log_connected",
            "1 while the engine of the cluster's log can be reached, otherwise 0.",
            flag(status.is_connected),
        ),
        (
            "log_ready",
            "1 while the node is ready as far as the cluster's log is concerned, otherwise 0.",
            flag(status.not_ready.is_none()),
        ),
        (
            "log_lag_seconds",
            "Time by which the node is behind the cluster's log.",
            status.lag.as_secs_f64(),
        ),
        (
            "log_applied_sequence",
            "Sequence of the last entry of the cluster's log that the node has applied.",
            status.applied.number() as f64,
        ),
        (
            "log_last_sequence",
            "Sequence of the last entry that is known to be in the cluster's log.",
            status.last.number() as f64,
        ),
        (
            "log_in_flight_entries",
            "Entries that the node has sent and not yet read back.",
            status.in_flight as f64,
        ),
        (
            "log_waiting_bytes",
            "Bytes of events and changes that wait for the cluster's log or are on their way.",
            status.waiting_bytes as f64,
        ),
        (
            "log_bytes",
            "Bytes of the cluster's log.",
            engine.bytes as f64,
        ),
        (
            "log_bytes_max",
            "Most bytes that the cluster's log may have; 0 without a limit.",
            engine.bytes_max as f64,
        ),
        (
            "log_has_leader",
            "1 while the engine names a leader of the cluster's log, otherwise 0.",
            flag(engine.leader.is_some()),
        ),
        (
            "log_leader_silent_seconds",
            "Time since the leader of the cluster's log last answered the node.",
            engine.leaderless.as_secs_f64(),
        ),
        (
            "log_followers",
            "Servers that follow the leader of the cluster's log.",
            engine.followers.len() as f64,
        ),
        (
            "log_followers_current",
            "Servers of them that keep up.",
            followers_current as f64,
        ),
        (
            "log_follower_lag_entries",
            "Entries that the slowest of them lacks.",
            follower_lag as f64,
        ),
        (
            "cluster_nodes",
            "Nodes of the cluster, this one included.",
            status.nodes.len() as f64,
        ),
    ];
    for (name, help, value) in gauges {
        gauge(encoder, name, help, value)?;
    }
    let counters = [
        (
            "log_entries",
            "Entries of the cluster's log that the node has applied.",
            status.entries,
        ),
        (
            "log_skipped",
            "Entries of the cluster's log that do not count: repeats, and entries out of turn.",
            status.skipped,
        ),
        (
            "log_resent",
            "Entries that the node has sent to the cluster's log again.",
            status.resent,
        ),
        (
            "log_connects",
            "Connections to the engine that the node has made, the first one included.",
            engine.connects,
        ),
        (
            "log_disconnects",
            "Connections to the engine that the node has lost.",
            engine.disconnects,
        ),
        (
            "log_messages_dropped",
            "Messages of the engine that were dropped because the node did not read them in time. \
             It asks for those of the log again.",
            engine.dropped,
        ),
        (
            "log_consumers",
            "Consumers that the node has made to read the cluster's log, the first one included.",
            engine.consumers,
        ),
        (
            "log_consumers_silent",
            "Consumers that the node replaced because they were silent.",
            engine.consumers_silent,
        ),
        (
            "log_consumers_skipped",
            "Consumers that the node replaced because a message was missing or they were gone.",
            engine.consumers_skipped,
        ),
    ];
    for (name, help, count) in counters {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}
