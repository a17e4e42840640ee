//! A listener as all workers see it: its settings, its backends, its counts. And the plan, which is all
//! listeners of one reading of the configuration.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use reactor::{ConnectOptions, ListenerOptions};

use crate::tcp::backend::Backend;
use crate::tcp::limits::LISTEN_BACKLOG;
use crate::tcp::settings::ListenerSettings;

/// One listener's settings and backends. Connections keep the one they came by.
#[derive(Debug)]
pub(crate) struct Front {
    /// Where it really listens, never port 0.
    pub(crate) address: SocketAddr,
    pub(crate) settings: ListenerSettings,
    pub(crate) backends: Box<[Arc<Backend>]>,
    /// Outlives a reload.
    pub(crate) counts: Arc<Counts>,
    /// Whose turn it is.
    pub(crate) turn: AtomicUsize,
}

/// Connections of one listener over all workers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    connections: AtomicU32,
    /// By source; empty unless sources are limited.
    sources: Mutex<HashMap<IpAddr, u32>>,
}

/// Which limit a connection met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Listener,
    Source,
}

impl Counts {
    /// Counts a connection in.
    pub(crate) fn enter(&self, limit: Option<u32>) -> Result<(), Refused> {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        if limit.is_some_and(|limit| before >= limit) {
            self.leave();
            return Err(Refused::Listener);
        }
        Ok(())
    }

    pub(crate) fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a source in.
    pub(crate) fn enter_source(&self, source: IpAddr, limit: u32) -> Result<(), Refused> {
        let mut sources = self.sources.lock();
        let count = sources.entry(source).or_default();
        if *count >= limit {
            return Err(Refused::Source);
        }
        *count += 1;
        Ok(())
    }

    pub(crate) fn leave_source(&self, source: IpAddr) {
        let mut sources = self.sources.lock();
        if let Some(count) = sources.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                sources.remove(&source);
            }
        }
    }
}

impl Front {
    /// The listener of `settings` at `address`. What is known of its backends and its connections
    /// goes on from `before`.
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
            turn: AtomicUsize::new(0),
        }
    }

    pub(crate) fn listener_options(&self) -> ListenerOptions {
        ListenerOptions {
            backlog: LISTEN_BACKLOG,
            user_timeout: self.settings.user_timeout,
            keepalive: Some(self.settings.keepalive),
            defer_accept: None,
            fast_open: None,
        }
    }

    pub(crate) fn connect_options(&self) -> ConnectOptions {
        ConnectOptions {
            user_timeout: self.settings.user_timeout,
            keepalive: self.settings.keepalive,
        }
    }
}

/// All listeners.
pub(crate) type Plan = Arc<[Arc<Front>]>;
