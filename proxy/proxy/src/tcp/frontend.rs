//! Listeners, shared by all workers: settings, backends and counts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use reactor::{Acceptor, ConnectOptions, Keepalive, ListenerOptions, RelayDriver, SourceCounts};

use crate::tcp::backend::Backend;
use crate::tcp::limits::LISTEN_BACKLOG;
use crate::tcp::settings::ListenerSettings;

/// All listeners of one configuration.
pub(crate) type Frontends = Arc<[Arc<Frontend>]>;

/// Settings and backends of a listener, shared by all workers. After a reload, existing connections
/// keep the old one.
#[derive(Debug)]
pub(crate) struct Frontend {
    /// Address of the listener; its port is never 0.
    pub(crate) address: SocketAddr,
    pub(crate) settings: ListenerSettings,
    pub(crate) backends: Box<[Arc<Backend>]>,
    /// Kept across reloads.
    pub(crate) counts: Arc<ConnectionCounts>,
    /// Number of choices so far among equal backends, which take turns.
    pub(crate) round: AtomicUsize,
}

/// Numbers of connections of one listener over all workers.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    connections: AtomicU32,
    /// Numbers by source. Empty unless sources are limited.
    pub(crate) sources: SourceCounts,
}

impl ConnectionCounts {
    /// Counts a connection, unless there are `limit` already. Returns whether it was counted.
    pub(crate) fn enter(&self, limit: Option<u32>) -> bool {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let admitted = limit.is_none_or(|limit| before < limit);
        if !admitted {
            self.leave();
        }
        admitted
    }

    /// Removes a connection that [`enter`](Self::enter) counted.
    pub(crate) fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Frontend {
    /// Makes the listener of `settings` at `address`. Takes over from `before` the counts of
    /// connections and the state of backends that stay.
    pub(crate) fn new(
        address: SocketAddr,
        settings: ListenerSettings,
        before: Option<&Self>,
    ) -> Self {
        let known = |wanted: &SocketAddr, name: &str| {
            let mut backends = before?.backends.iter();
            backends.find(|known| known.address == *wanted && known.name == name)
        };
        let backends = settings.backends.iter().map(|named| {
            known(&named.address, &named.name)
                .cloned()
                .unwrap_or_else(|| Arc::new(Backend::new(named)))
        });
        Self {
            address,
            backends: backends.collect(),
            settings,
            counts: before
                .map(|before| Arc::clone(&before.counts))
                .unwrap_or_default(),
            round: AtomicUsize::new(0),
        }
    }

    /// Opens the listener on one worker.
    ///
    /// # Errors
    ///
    /// Those of [`reactor::Driver::listen`].
    pub(crate) fn listen<D: RelayDriver>(
        self: &Arc<Self>,
        acceptor: &mut Acceptor<D::Listener, Arc<Self>>,
        driver: &mut D,
    ) -> io::Result<()> {
        let options = ListenerOptions {
            backlog: LISTEN_BACKLOG,
            user_timeout: self.settings.user_timeout,
            keepalive: Some(self.keepalive()),
            defer_accept: None,
            fast_open: None,
            send_buffer: None,
        };
        acceptor.open(driver, Arc::clone(self), |driver, token| {
            driver.listen(self.address, &options, token)
        })
    }

    /// Returns the options of connections to the backends.
    pub(crate) fn connect_options(&self) -> ConnectOptions {
        ConnectOptions {
            user_timeout: self.settings.user_timeout,
            keepalive: self.keepalive(),
        }
    }

    fn keepalive(&self) -> Keepalive {
        Keepalive::new(self.settings.keepalive, self.settings.user_timeout)
    }
}
