//! Counters of events and requests.

/// Counters of a webhook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WebhookStats {
    /// Events that the receiver has accepted.
    pub delivered: u64,
    /// Events that were dropped because there was no room, or because the receiver did not accept
    /// them in time.
    pub dropped: u64,
    /// Requests that the receiver has accepted.
    pub accepted: u64,
    /// Requests that were answered with another status than 200 to 299.
    pub refused: u64,
    /// Requests without an answer.
    pub failed: u64,
    /// Events that wait, including those of a request in flight.
    pub queued_events: u64,
    /// Bytes of the events that wait for a request.
    pub queued_bytes: u64,
    /// Whether the receiver has answered 410, so that nothing is sent until a reload.
    pub is_stopped: bool,
}
