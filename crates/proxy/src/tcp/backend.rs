//! Backends: what all workers know of them together, and when one is left alone.
//!
//! Nothing here is on the path of a byte: it is written when a connection begins, fails or ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reactor::Tick;

use crate::tcp::settings::{BackendAddress, ListenerSettings};

/// The longest that a backend is left alone: a minute after it is well, it is found.
const EJECTED_MAX: Duration = Duration::from_secs(60);

/// A backend of one listener. Lives as long as a plan or a connection knows it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// Connections now, attempts included.
    pub(crate) connections: AtomicU32,
    /// What the active checks say.
    well: AtomicBool,
    /// Failures in a row of connections.
    failures: AtomicU32,
    /// Times in a row that it was left alone.
    ejections: AtomicU32,
    ejected_until: AtomicU64,
}

impl Backend {
    pub(crate) fn new(named: &BackendAddress) -> Self {
        Self {
            name: named.name.clone(),
            address: named.address,
            connections: AtomicU32::new(0),
            well: AtomicBool::new(true),
            failures: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }

    /// Notes what the active checks say. Returns whether that is news.
    pub(crate) fn set_well(&self, well: bool) -> bool {
        if well {
            self.ejected_until.store(0, Ordering::Relaxed);
        }
        self.well.swap(well, Ordering::Relaxed) != well
    }

    pub(crate) fn is_ejected(&self, now: Tick) -> bool {
        self.ejected_until.load(Ordering::Relaxed) > now.0
    }

    /// A connection was made.
    pub(crate) fn succeeded(&self) {
        // Most of the time nothing is to be forgotten, and a store would take the line from others.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.ejections.store(0, Ordering::Relaxed);
        }
    }

    /// A connection failed. Returns for how long the backend is left alone from now on, if that is
    /// news.
    pub(crate) fn failed(&self, settings: &ListenerSettings, now: Tick) -> Option<Duration> {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if settings.eject_after == 0 || failures < settings.eject_after || self.is_ejected(now) {
            return None;
        }
        let times = self.ejections.fetch_add(1, Ordering::Relaxed).min(16);
        let pause = (settings.eject_time * (1 << times)).min(EJECTED_MAX.max(settings.eject_time));
        self.ejected_until
            .store(now.after(pause).0, Ordering::Relaxed);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_goes_on_failing_is_left_alone_twice_as_long_each_time() {
        let address: SocketAddr = "127.0.0.1:1".parse().expect("valid");
        let named = BackendAddress {
            name: "a".into(),
            address,
        };
        let settings = ListenerSettings::new(address, vec![named.clone()]);
        let backend = Backend::new(&named);
        let mut now = Tick(1_000);
        assert_eq!(backend.failed(&settings, now), None);
        assert_eq!(backend.failed(&settings, now), None);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = Duration::from_secs(seconds);
            assert_eq!(backend.failed(&settings, now), Some(pause));
            assert_eq!(backend.failed(&settings, now), None, "it is known already");
            now = Tick(now.after(pause).0 - 1);
            assert!(backend.is_ejected(now));
            now = Tick(now.0 + 1);
            assert!(!backend.is_ejected(now));
        }
        backend.succeeded();
        assert_eq!(
            backend.failed(&settings, now),
            None,
            "three are needed again"
        );
    }
}
