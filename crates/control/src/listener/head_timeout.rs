//! Timeouts for request heads: one for the first head of a connection, another for later ones.
//!
//! Hyper has one timeout for both. A new connection that sends nothing should be closed soon; a
//! client that was answered keeps its connection for its next request, which may come much later.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

/// The timeouts of a kind of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadTimeouts {
    /// The timeout for the first head, from the start of the connection.
    pub(crate) head: Duration,
    /// The additional time for a later head, from the end of the previous answer.
    more: Duration,
}

impl HeadTimeouts {
    /// Makes timeouts. An idle connection gets at least the time of a new one.
    pub(crate) const fn new(head: Duration, idle: Duration) -> Self {
        Self {
            head,
            more: idle.saturating_sub(head),
        }
    }

    /// Makes the timer of one connection whose `header_read_timeout` is `head`: the only time that
    /// hyper's HTTP/1 server asks a timer for, once for each head it begins to wait for.
    pub(crate) const fn connection_timer(self) -> HeadTimer {
        HeadTimer {
            more: self.more,
            answered: AtomicBool::new(false),
        }
    }
}

/// A timer whose first sleep takes the requested time, and whose later sleeps take longer.
#[derive(Debug)]
pub(crate) struct HeadTimer {
    more: Duration,
    answered: AtomicBool,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        TokioTimer::new().sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let more = if self.answered.swap(true, Relaxed) {
            self.more
        } else {
            Duration::ZERO
        };
        TokioTimer::new().sleep_until(deadline + more)
    }

    fn now(&self) -> Instant {
        TokioTimer::new().now()
    }
}
