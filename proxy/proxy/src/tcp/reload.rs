//! Reload and drain of a running worker. Neither affects existing connections.

use std::sync::Arc;
use std::time::Duration;

use reactor::{Acceptor, RelayDriver, Tick};

use crate::tcp::frontend::{Frontend, Frontends};

/// Drain of a worker. Lives as long as the worker.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    until: Option<Tick>,
}

impl Drain {
    /// Begins the drain, which takes at most `timeout`. A second call can only shorten the time.
    pub(crate) fn begin(&mut self, now: Tick, timeout: Duration) {
        let until = now.after(timeout);
        self.until = Some(self.until.map_or(until, |before| before.min(until)));
    }

    /// Returns whether the drain has begun.
    pub(crate) const fn has_begun(&self) -> bool {
        self.until.is_some()
    }

    /// Returns whether the remaining connections must be closed.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns the time until then, if the drain has begun.
    pub(crate) fn due_in(&self, now: Tick) -> Option<Duration> {
        self.until.map(|until| until.since(now))
    }
}

/// Opens the listeners of `frontends` that are not open. The others get their new settings, which
/// apply to new connections. Failures to open a listener are logged.
pub(crate) fn open_listeners<D: RelayDriver>(
    acceptor: &mut Acceptor<D::Listener, Arc<Frontend>>,
    driver: &mut D,
    frontends: &Frontends,
    worker: u16,
) {
    for frontend in frontends.iter() {
        let mut open = acceptor.listeners_mut().iter_mut();
        if let Some(open) = open.find(|open| open.context.address == frontend.address) {
            open.context = Arc::clone(frontend);
        } else if let Err(error) = frontend.listen(acceptor, driver) {
            let address = frontend.address;
            tracing::error!(
                "worker {worker} cannot listen at {address}: {error}; the kernel gives its share \
                 of the connections to the other workers"
            );
        }
    }
}

/// Returns the ids of the open listeners that are not among `frontends`.
pub(crate) fn removed_listeners<L>(
    acceptor: &Acceptor<L, Arc<Frontend>>,
    frontends: &[Arc<Frontend>],
) -> Vec<u32> {
    let stays = |frontend: &Frontend| {
        let mut kept = frontends.iter();
        kept.any(|kept| kept.address == frontend.address)
    };
    let open = acceptor.listeners().iter();
    open.filter(|open| !stays(&open.context))
        .map(|open| open.id)
        .collect()
}
