//! Metrics of a webhook.

use webhook::WebhookStats;

use super::text::Text;

/// Writes them.
pub(super) fn write(text: &mut Text, stats: &WebhookStats) {
    let events = [("delivered", stats.delivered), ("dropped", stats.dropped)];
    let help = "Events for the webhook, by outcome. Delivered: its receiver has accepted them. \
             Dropped: there was no room, or it did not accept them in time.";
    text.counters("webhook_events", help, "outcome", events);
    let requests = [
        ("accepted", stats.accepted),
        ("refused", stats.refused),
        ("failed", stats.failed),
    ];
    let help = "Requests of the webhook, by outcome. Accepted: with a status from 200 to 299. \
             Refused: with another one. Failed: there was no answer.";
    text.counters("webhook_requests", help, "outcome", requests);
    text.gauge(
        "webhook_queue_events",
        "Events that wait for the webhook, those of a request under way included.",
        stats.queued_events as f64,
    );
    text.gauge(
        "webhook_queue_bytes",
        "Bytes of the events that wait for a request of the webhook.",
        stats.queued_bytes as f64,
    );
    text.flag(
        "webhook_stopped",
        "1 after the receiver of the webhook has answered 410, until a reload; otherwise 0.",
        stats.is_stopped,
    );
}
