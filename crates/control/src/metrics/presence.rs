//! Metrics of presence.

use server::PresenceCounts;

use super::text::Text;

/// What is shown of presence.
#[derive(Debug, Clone, Copy)]
pub(super) struct PresenceStats {
    pub(super) online: usize,
    pub(super) hidden: usize,
    pub(super) counts: PresenceCounts,
}

/// Writes the metrics.
pub(super) fn write(text: &mut Text, stats: &PresenceStats) {
    let counts = &stats.counts;
    let help = "Ids that came online or went offline, by what became of it. Told: to the online \
                subscribers. Bulk: very many came or went at once, or the server had just \
                started; sessions got snapshots. Crowded: the id has more subscribers than \
                presence-subscribers-max, or its subscribers knew it. Undone: it was as before \
                when its turn came.";
    let edges = [
        ("told", counts.told),
        ("bulk", counts.bulk),
        ("crowded", counts.crowded),
        ("undone", counts.undone),
    ];
    text.counters("presence_edges", help, "outcome", edges);
    text.gauge(
        "presence_online_ids",
        "Ids that are online, in a cluster on any node: with a session, or with one less \
             than presence-delay ago. Hidden ones are among them.",
        stats.online as f64,
    );
    text.gauge("presence_hidden_ids", "Ids that hide.", stats.hidden as f64);
    text.gauge(
        "presence_leaving_ids",
        "Ids of this node whose last session has ended less than presence-delay ago, or that \
             have come back within it.",
        counts.leaving as f64,
    );
    text.gauge(
        "presence_queue_edges",
        "Edges that wait to be told, as presence-rate allows.",
        counts.waiting as f64,
    );
    text.gauge(
        "presence_handover_edges",
        "Edges that other nodes of the cluster have to send to the webhook, and that are kept \
             here in case one of them dies.",
        counts.handover as f64,
    );
}
