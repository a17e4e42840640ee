//! Timeouts for request heads: one for the first head of a connection, others for later ones.
//!
//! Hyper has one timeout for all. A new connection that sends nothing should be closed soon; a
//! client whose requests are authorized keeps its connection for its next request, which may come
//! much later.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

use crate::limits::{IDLE_WAIT, UNAUTHORIZED_IDLE_WAIT};
use crate::places::Place;

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
        Box::pin(DeadlineSleep {
            sleep: TokioTimer::new().sleep_until(deadline),
            deadline,
            is_extended: false,
        })
    }

    fn now(&self) -> Instant {
        TokioTimer::new().now()
    }
}

/// A deadline that is noticed later than by this was passed while the process was stopped.
const STOP_MIN: Duration = Duration::from_secs(1);

/// Time to read what came while the process was stopped. Hyper looks at its timer first.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Sleep until a deadline, and once a little longer if the process could not read before it.
struct DeadlineSleep {
    sleep: Pin<Box<dyn Sleep>>,
    deadline: Instant,
    is_extended: bool,
}

impl Sleep for DeadlineSleep {}

impl Future for DeadlineSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.sleep.as_mut().poll(context));
        let late = TokioTimer::new()
            .now()
            .saturating_duration_since(self.deadline);
        if late <= STOP_MIN || self.is_extended {
            return Poll::Ready(());
        }
        self.is_extended = true;
        self.sleep = TokioTimer::new().sleep(CATCH_UP);
        self.sleep.as_mut().poll(context)
    }
}
