//! Metrics of presence.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use server::PresenceCounts;

use super::encode::gauge;

/// What is shown of presence.
#[derive(Debug, Clone, Copy)]
pub(super) struct PresenceStats {
    pub(super) online: usize,
    pub(super) hidden: usize,
    pub(super) counts: PresenceCounts,
}

/// Writes the metrics.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    stats: &PresenceStats,
) -> Result<(), fmt::Error> {
    let counts = &stats.counts;
    let help = "Ids that came online or went offline, by what became of it. Told: to the online \
                subscribers. Bulk: very many came or went at once, or the server had just \
                started; sessions got snapshots. Crowded: the id has more subscribers than \
                presence-subscribers-max, or its subscribers knew it. Undone: it was as before \
                when its turn came.";
    let mut edges = encoder.encode_descriptor("presence_edges", help, None, MetricType::Counter)?;
    for (outcome, count) in [
        ("told", counts.told),
        ("bulk", counts.bulk),
        ("crowded", counts.crowded),
        ("undone", counts.undone),
    ] {
        edges
            .encode_family(&[("outcome", outcome)])?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    for (name, help, value) in [
        (
            "presence_online_ids",
            "Ids that are online, in a cluster on any node: with a session, or with one less \
             than presence-delay ago. Hidden ones are among them.",
            stats.online as u64,
        ),
        ("presence_hidden_ids", "Ids that hide.", stats.hidden as u64),
        (
            "presence_leaving_ids",
            "Ids of this node whose last session has ended less than presence-delay ago, or that \
             have come back within it.",
            counts.leaving,
        ),
        (
            "presence_queue_edges",
            "Edges that wait to be told, as presence-rate allows.",
            counts.waiting,
        ),
        (
            "presence_handover_edges",
            "Edges that other nodes of the cluster have to send to the webhook, and that are kept \
             here in case one of them dies.",
            counts.handover,
        ),
    ] {
        gauge(encoder, name, help, value as f64)?;
    }
    Ok(())
}
