//! Listeners as all workers see them: settings, backends and counts.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use reactor::{Acceptor, ConnectOptions, Keepalive, ListenerOptions, RelayDriver, SourceCounts};

use crate::tcp::backend::Backend;
use crate::tcp::limits::LISTEN_BACKLOG;
use crate::tcp::settings::ListenerSettings;

/// All listeners of one reading of the configuration.
pub(crate) type Frontends = Arc<[Arc<Frontend>]>;

/// One listener's settings and backends, shared by all workers. A connection keeps the one it came
/// by when a reload replaces it.
#[derive(Debug)]
pub(crate) struct Frontend {
    /// The address that it listens at, never with port 0.
    pub(crate) address: SocketAddr,
    pub(crate) settings: ListenerSettings,
    pub(crate) backends: Box<[Arc<Backend>]>,
    /// Outlives a reload.
    pub(crate) counts: Arc<ConnectionCounts>,
    /// Counts choices among equal backends, which take turns.
    pub(crate) round: AtomicUsize,
}

/// Connections of one listener over all workers.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    connections: AtomicU32,
    /// By source. Empty unless sources are limited.
    pub(crate) sources: SourceCounts,
}

impl ConnectionCounts {
    /// Counts a connection. Returns false, and counts nothing, when there are `limit` already.
    pub(crate) fn enter(&self, limit: Option<u32>) -> bool {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let admitted = limit.is_none_or(|limit| before < limit);
        if !admitted {
            self.leave();
        }
        admitted
    }

    /// Uncounts a connection that [`enter`](Self::enter) counted.
    pub(crate) fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Frontend {
    /// The listener of `settings` at `address`. Takes over what `before` knows of its connections
    /// and of backends that stay.
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

    /// Options of connections to the backends.
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
