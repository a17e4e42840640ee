//! How long a connection may take to send a head: one time for the first, another for those after.
//!
//! Hyper knows one time for both. A client of which nothing is known yet should be cut soon; one that
//! was answered keeps its connection for the next request, which need not come soon.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

/// The times of all connections behind a door.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the first head, from the connection's beginning.
    pub(crate) head: Duration,
    /// What a later head may take longer, from the end of the answer before it.
    more: Duration,
}

impl Patience {
    /// An idle connection gets no less time than a new one.
    pub(crate) const fn new(head: Duration, idle: Duration) -> Self {
        Self {
            head,
            more: idle.saturating_sub(head),
        }
    }

    /// The timer of one connection whose `header_read_timeout` is `head`: the only time that hyper's
    /// HTTP/1 server asks a timer for, once for each head it begins to wait for.
    pub(crate) const fn of_a_connection(self) -> HeadTimer {
        HeadTimer {
            more: self.more,
            answered: AtomicBool::new(false),
        }
    }
}

/// A timer that gives the first sleep the time asked for, and later ones more.
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
