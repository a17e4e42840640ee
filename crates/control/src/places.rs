//! Places of connections: those that have sent an authorized request, and the others.
//!
//! Owns both bounds. A connection begins as unauthorized. Its first authorized request moves it to
//! the other bound, for good. When there are too many unauthorized ones, the one whose last request
//! is oldest is closed, so clients without a token cannot keep those with one out. Must never look
//! into a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::limits::{Limits, UNAUTHORIZED_WAIT};
use crate::metrics::listener::ListenerMetrics;

/// Places of a listener. They live as long as its connections.
#[derive(Debug)]
pub(crate) struct Places {
    state: Mutex<State>,
    metrics: Arc<ListenerMetrics>,
    head_timeout: Duration,
    limits: Limits,
}

#[derive(Debug, Default)]
struct State {
    /// Unauthorized connections, by the order of their last requests.
    unauthorized: BTreeMap<u64, Arc<Notify>>,
    authorized: usize,
    /// The next number in that order.
    next: u64,
}

/// Place of one connection. Held by its task and its requests; dropped with the last of them.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    standing: Mutex<Standing>,
    /// Rung when the connection has to give way.
    give_way: Arc<Notify>,
}

#[derive(Debug, Clone, Copy)]
enum Standing {
    Unauthorized { number: u64, since: Instant },
    Authorized,
}

impl Places {
    pub(crate) fn new(
        metrics: Arc<ListenerMetrics>,
        head_timeout: Duration,
        limits: Limits,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            metrics,
            head_timeout,
            limits,
        })
    }

    /// Gives a new connection a place: that of another one if there are too many.
    pub(crate) fn enter(self: &Arc<Self>) -> Arc<Place> {
        let give_way = Arc::new(Notify::new());
        let mut state = self.state.lock();
        if state.unauthorized.len() >= self.limits.unauthorized_max {
            state.end_oldest(&self.metrics);
        }
        let number = state.put(Arc::clone(&give_way));
        self.metrics.enter();
        Arc::new(Place {
            places: Arc::clone(self),
            standing: Mutex::new(Standing::Unauthorized {
                number,
                since: Instant::now(),
            }),
            give_way,
        })
    }

    /// Closes the unauthorized connection whose last request is oldest, if there is one.
    pub(crate) fn end_oldest(&self) -> bool {
        self.state.lock().end_oldest(&self.metrics)
    }
}

impl State {
    fn put(&mut self, give_way: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.unauthorized.insert(number, give_way);
        number
    }

    fn end_oldest(&mut self, metrics: &ListenerMetrics) -> bool {
        let oldest = self.unauthorized.pop_first();
        if let Some((_, give_way)) = &oldest {
            metrics.evict();
            give_way.notify_one();
        }
        oldest.is_some()
    }
}

impl Place {
    /// Notes that the connection has sent a request.
    pub(crate) fn renew(&self) {
        let mut standing = self.standing.lock();
        if let Standing::Unauthorized { number, since } = &mut *standing {
            let mut state = self.places.state.lock();
            // A connection that has to give way is no longer there.
            if let Some(give_way) = state.unauthorized.remove(number) {
                *number = state.put(give_way);
                *since = Instant::now();
            }
        }
    }

    /// Notes that the connection has sent an authorized request.
    ///
    /// # Errors
    ///
    /// The most of those connections, if there are as many.
    pub(crate) fn authorize(&self) -> Result<(), usize> {
        let mut standing = self.standing.lock();
        let Standing::Unauthorized { number, .. } = *standing else {
            return Ok(());
        };
        let mut state = self.places.state.lock();
        let most = self.places.limits.authorized_max;
        if state.authorized >= most {
            self.places.metrics.refuse();
            return Err(most);
        }
        // One that has to give way is ended all the same: its place is taken.
        if state.unauthorized.remove(&number).is_some() {
            state.authorized += 1;
            *standing = Standing::Authorized;
        }
        Ok(())
    }

    /// Returns whether the connection has sent an authorized request.
    pub(crate) fn is_authorized(&self) -> bool {
        matches!(*self.standing.lock(), Standing::Authorized)
    }

    /// Waits until the connection has to end: another one needs its place, or it is unauthorized
    /// and its last request is too old. Not for ever otherwise.
    pub(crate) async fn ended(&self) {
        loop {
            let Standing::Unauthorized { since, .. } = *self.standing.lock() else {
                return self.give_way.notified().await;
            };
            let late = since + self.places.head_timeout + UNAUTHORIZED_WAIT;
            tokio::select! {
                () = self.give_way.notified() => return,
                () = sleep_until(late) => {}
            }
            if let Standing::Unauthorized { since: now, .. } = *self.standing.lock()
                && now == since
            {
                return self.places.metrics.cut();
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        match *self.standing.get_mut() {
            Standing::Unauthorized { number, .. } => drop(state.unauthorized.remove(&number)),
            Standing::Authorized => state.authorized -= 1,
        }
        self.places.metrics.leave();
    }
}
