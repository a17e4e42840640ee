//! Timeouts for request heads: one for the first head of a connection, others for later ones.
//!
//! Hyper has one timeout for all. A new connection that sends nothing should be closed soon; a
//! client whose requests are authorized keeps its connection for its next request, which may come
//! much later.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

use super::places::Place;
use crate::limits::{IDLE_WAIT, UNAUTHORIZED_IDLE_WAIT};

/// Makes the timer of one connection whose `header_read_timeout` is `head`: the only time that
/// hyper's HTTP/1 server asks a timer for, once for each head it begins to wait for. The connection
/// has been there since `begun`; a handshake since then is part of the time for its first head.
pub(crate) const fn connection_timer(
    head: Duration,
    begun: tokio::time::Instant,
    place: Arc<Place>,
) -> HeadTimer {
    HeadTimer {
        head,
        begun,
        place,
        answered: AtomicBool::new(false),
    }
}

/// A timer whose first sleep takes the requested time. Later ones depend on the connection's place.
#[derive(Debug)]
pub(crate) struct HeadTimer {
    head: Duration,
    begun: tokio::time::Instant,
    place: Arc<Place>,
    answered: AtomicBool,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        TokioTimer::new().sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let is_first = !self.answered.swap(true, Relaxed);
        let deadline = if is_first {
            (self.begun + self.head).into_std()
        } else if self.place.is_authorized() {
            // At least the time of a new connection.
            deadline + IDLE_WAIT.saturating_sub(self.head)
        } else {
            deadline - self.head.saturating_sub(UNAUTHORIZED_IDLE_WAIT)
        };
        TokioTimer::new().sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        TokioTimer::new().now()
    }
}
