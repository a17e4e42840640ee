//! Backends as all workers see them: their connections, their health, and the ejection of those
//! that fail.
//!
//! Nothing here is on the path of a byte: it is written when a connection begins, fails or ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reactor::Tick;

use crate::tcp::settings::{BackendAddress, ListenerSettings};

/// The longest ejection: a backend that works again is found within a minute.
const EJECTED_MAX: Duration = Duration::from_secs(60);

/// A backend of one listener. Lives as long as a listener or a connection refers to it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// Connections now, attempts included.
    pub(crate) connections: AtomicU32,
    /// Attempts to connect since the backend was configured, and those of them that failed.
    connects: AtomicU64,
    connects_failed: AtomicU64,
    /// What the health checks say.
    well: AtomicBool,
    /// Attempts to connect in a row that failed.
    failures: AtomicU32,
    /// Ejections in a row.
    ejections: AtomicU32,
    ejected_until: AtomicU64,
}

/// The state of one listener's backend at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendReport {
    /// Where the proxy listens.
    pub listener: SocketAddr,
    /// As the operator wrote it.
    pub backend: String,
    /// The address that the name stood for when the configuration was read.
    pub address: SocketAddr,
    /// Whether it gets connections.
    pub state: BackendState,
    /// Connections now, attempts included.
    pub connections: u32,
    /// Attempts to connect since the backend was configured.
    pub connects: u64,
    /// Attempts that failed.
    pub connects_failed: u64,
}

/// Whether a backend gets connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendState {
    /// It gets connections.
    Well,
    /// It gets none for a while, as connections to it have failed; unless all backends are ejected.
    Ejected,
    /// It gets none until health checks pass.
    Unwell,
}

impl BackendState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Well, Self::Ejected, Self::Unwell];

    /// The state in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Ejected => "ejected",
            Self::Unwell => "unwell",
        }
    }
}

impl Backend {
    /// A backend that is taken to be well.
    pub(crate) fn new(named: &BackendAddress) -> Self {
        Self {
            name: named.name.clone(),
            address: named.address,
            connections: AtomicU32::new(0),
            connects: AtomicU64::new(0),
            connects_failed: AtomicU64::new(0),
            well: AtomicBool::new(true),
            failures: AtomicU32::new(0),
            ejections: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
        }
    }

    /// The name, followed by the address where that is not the same.
    pub(crate) fn shown(&self) -> String {
        let address = self.address.to_string();
        match self.name == address {
            true => address,
            false => format!("{} ({address})", self.name),
        }
    }

    /// Whether the health checks have not taken it out.
    pub(crate) fn is_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }

    /// Records what the health checks say. Returns whether that is a change.
    pub(crate) fn set_well(&self, well: bool) -> bool {
        if well {
            self.ejected_until.store(0, Ordering::Relaxed);
        }
        self.well.swap(well, Ordering::Relaxed) != well
    }

    /// Whether it is ejected at `now`.
    pub(crate) fn is_ejected(&self, now: Tick) -> bool {
        self.ejected_until.load(Ordering::Relaxed) > now.0
    }

    /// The state at `now`, as a backend of `listener`.
    pub(crate) fn report(&self, listener: SocketAddr, now: Tick) -> BackendReport {
        let state = match (self.is_well(), self.is_ejected(now)) {
            (false, _) => BackendState::Unwell,
            (true, true) => BackendState::Ejected,
            (true, false) => BackendState::Well,
        };
        BackendReport {
            listener,
            backend: self.name.clone(),
            address: self.address,
            state,
            connections: self.connections.load(Ordering::Relaxed),
            connects: self.connects.load(Ordering::Relaxed),
            connects_failed: self.connects_failed.load(Ordering::Relaxed),
        }
    }

    /// Records an attempt to connect.
    pub(crate) fn record_attempt(&self) {
        self.connects.fetch_add(1, Ordering::Relaxed);
    }

    /// Records an attempt that succeeded.
    pub(crate) fn record_success(&self) {
        // Usually there is nothing to reset, and a store would take the cache line from other
        // workers.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.ejections.store(0, Ordering::Relaxed);
        }
    }

    /// Records an attempt that failed. Returns for how long the backend is ejected, if it is so
    /// from now on.
    pub(crate) fn record_failure(
        &self,
        settings: &ListenerSettings,
        now: Tick,
    ) -> Option<Duration> {
        self.connects_failed.fetch_add(1, Ordering::Relaxed);
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
    fn a_backend_that_goes_on_failing_is_ejected_twice_as_long_each_time() {
        let address: SocketAddr = "127.0.0.1:1".parse().expect("valid");
        let named = BackendAddress {
            name: "a".into(),
            address,
        };
        let settings = ListenerSettings::new(address, vec![named.clone()]);
        let backend = Backend::new(&named);
        let mut now = Tick(1_000);
        assert_eq!(backend.record_failure(&settings, now), None);
        assert_eq!(backend.record_failure(&settings, now), None);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = Duration::from_secs(seconds);
            assert_eq!(backend.record_failure(&settings, now), Some(pause));
            assert_eq!(
                backend.record_failure(&settings, now),
                None,
                "it is ejected already"
            );
            now = Tick(now.after(pause).0 - 1);
            assert!(backend.is_ejected(now));
            now = Tick(now.0 + 1);
            assert!(!backend.is_ejected(now));
        }
        backend.record_success();
        assert_eq!(
            backend.record_failure(&settings, now),
            None,
            "three are needed again"
        );
    }
}
