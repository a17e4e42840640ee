//! Metrics of a webhook.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use webhook::WebhookStats;

use super::encode::gauge;

/// Writes them for Prometheus.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, stats: &WebhookStats) -> fmt::Result {
    let events = [("delivered", stats.delivered), ("dropped", stats.dropped)];
    let requests = [
        ("accepted", stats.accepted),
        ("refused", stats.refused),
        ("failed", stats.failed),
    ];
    let families = [
        (
            "webhook_events",
            "Events for the webhook, by outcome. Delivered: its receiver has accepted them. \
             Dropped: there was no room, or it did not accept them in time.",
            &events[..],
        ),
        (
            "webhook_requests",
            "Requests of the webhook, by outcome. Accepted: with a status from 200 to 299. \
             Refused: with another one. Failed: there was no answer.",
            &requests[..],
        ),
    ];
    for (name, help, counts) in families {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for &(outcome, count) in counts {
            family
                .encode_family(&[("outcome", outcome)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }
    let gauges = [
        (
            "webhook_queue_events",
            "Events that wait for the webhook, those of a request under way included.",
            stats.queued_events as f64,
        ),
        (
            "webhook_queue_bytes",
            "Bytes of the events that wait for a request of the webhook.",
            stats.queued_bytes as f64,
        ),
        (
            "webhook_stopped",
            "1 after the receiver of the webhook has answered 410, until a reload; otherwise 0.",
            f64::from(u8::from(stats.is_stopped)),
        ),
    ];
    for (name, help, value) in gauges {
        gauge(encoder, name, help, value)?;
    }
    Ok(())
}
