//! Named bounds, each with its reason.

use std::time::Duration;

/// Most events that wait. A receiver that is away for a minute misses nothing at a thousand a
/// second. Beyond it the oldest are dropped: the latest say more about how things are.
pub(crate) const QUEUED_EVENTS_MAX: usize = 65_536;

/// Most bytes of events that wait: ids may be long, and a session may have 128 of them.
pub(crate) const QUEUED_BYTES_MAX: usize = 16 << 20;

/// Most events in a request. At 20 ms an answer, that is 50,000 events a second.
pub(crate) const BATCH_EVENTS_MAX: usize = 1_000;

/// Most bytes of events in a request, unless one event is larger. Servers refuse bodies of more
/// than a megabyte by default.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;

/// Time that an event waits for others to share its request.
pub(crate) const BATCH_DELAY: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 100 });

/// Time until the first repetition of a request. It doubles with each.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1_000 });

/// Longest time until a repetition, also when the receiver asks for more (`Retry-After`).
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Time that the end of the server leaves for events that wait, a request under way included.
pub(crate) const FLUSH_TIME: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 5_000 });

/// Time for the body of an answer, of which nothing is used: it is read so that the connection can
/// be used again.
pub(crate) const ANSWER_BODY_TIME: Duration = Duration::from_secs(1);

/// Most bytes of the body of an answer that are read.
pub(crate) const ANSWER_BODY_BYTES_MAX: u64 = 16 << 10;

/// Most secrets: each makes a signature of every request. Two are enough to replace one.
pub(crate) const SECRETS_MAX: usize = 4;

/// Time after which something that goes on is logged again.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_secs(10 * 60);
