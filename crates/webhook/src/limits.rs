//! Named bounds, each with its reason.

use std::time::Duration;

/// Most events in the queue: at a thousand a second, a receiver that is unreachable for a minute
/// misses none. Beyond it the oldest are dropped, because the latest ones say more about the
/// current state.
pub(crate) const QUEUED_EVENTS_MAX: usize = 65_536;

/// Most bytes of events in the queue: ids may be long, and a session may have 128 of them.
pub(crate) const QUEUED_BYTES_MAX: usize = 16 << 20;

/// Most events in a request. If an answer takes 20 ms, that is 50,000 events a second.
pub(crate) const BATCH_EVENTS_MAX: usize = 1_000;

/// Most bytes of events in a request, unless one event is larger. Servers refuse bodies of more
/// than a megabyte by default.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;

/// Longest delay before a retry, even if the receiver asks for more (`Retry-After`).
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Time for the body of an answer. It is read, and ignored, so that the connection can be reused.
pub(crate) const ANSWER_BODY_TIME: Duration = Duration::from_secs(1);

/// Most bytes of the body of an answer that are read.
pub(crate) const ANSWER_BODY_BYTES_MAX: u64 = 16 << 10;

/// Most secrets. Every request has a signature by each, and two are enough to replace one.
pub(crate) const SECRETS_MAX: usize = 4;

/// Time after which a problem that persists is logged again.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Times that a test makes shorter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Time that an event waits for others to share its request.
    pub(crate) batch_delay: Duration,
    /// Delay before the first retry of a request. It doubles with each retry.
    pub(crate) backoff_min: Duration,
    /// Time for sending queued events when the server ends, including a request in flight.
    pub(crate) flush_time: Duration,
}

impl Pace {
    pub(crate) const USUAL: Self = Self {
        batch_delay: Duration::from_millis(100),
        backoff_min: Duration::from_secs(1),
        flush_time: Duration::from_secs(5),
    };
}
