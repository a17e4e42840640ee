//! Backends, shared by all workers: their connections, their health, and the ejection of those that
//! fail.
//!
//! Nothing here is on the data path: it is written when a connection begins, fails or ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reactor::Tick;

use crate::tcp::settings::{BackendAddress, ListenerSettings};

/// Longest ejection, so that a backend that works again is noticed within a minute.
const EJECTED_MAX: Duration = Duration::from_secs(60);

/// Backend of one listener. Lives as long as a listener or a connection refers to it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// Current connections, including attempts.
    pub(crate) connections: AtomicU32,
    /// Connection attempts since the backend was configured, and how many of them failed.
    connects: AtomicU64,
    connects_failed: AtomicU64,
    /// Result of the health checks.
    well: AtomicBool,
    /// Consecutive failed attempts to connect.
    failures: AtomicU32,
    /// Consecutive ejections.
    ejections: AtomicU32,
    ejected_until: AtomicU64,
}

/// State of a listener's backend at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendReport {
    /// Address of the listener.
    pub listener: SocketAddr,
    /// Name of the backend, as the operator wrote it.
    pub backend: String,
    /// Address that the name resolved to when the configuration was read.
    pub address: SocketAddr,
    /// Whether the backend gets connections.
    pub state: BackendState,
    /// Current connections, including attempts.
    pub connections: u32,
    /// Connection attempts since the backend was configured.
    pub connects: u64,
    /// Failed connection attempts.
    pub connects_failed: u64,
}

/// Whether a backend gets connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendState {
    /// It gets connections.
    Well,
    /// It gets none for a while because connections to it failed, unless all backends are ejected.
    Ejected,
    /// It gets none until health checks pass.
    Unwell,
}

impl BackendState {
    /// All states, in order.
    pub const ALL: [Self; 3] = [Self::Well, Self::Ejected, Self::Unwell];

    /// Returns the name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Ejected => "ejected",
            Self::Unwell => "unwell",
        }
    }
}

impl Backend {
    /// Makes a backend that counts as well until a check fails.
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

    /// Returns the name, followed by the address if that differs.
    pub(crate) fn shown(&self) -> String {
        let address = self.address.to_string();
        match self.name == address {
            true => address,
            false => format!("{} ({address})", self.name),
        }
    }

    /// Returns whether the health checks pass.
    pub(crate) fn is_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }

    /// Records the result of the health checks. Returns whether it changed.
    pub(crate) fn set_well(&self, well: bool) -> bool {
        if well {
            self.ejected_until.store(0, Ordering::Relaxed);
        }
        self.well.swap(well, Ordering::Relaxed) != well
    }

    /// Returns whether it is ejected at `now`.
    pub(crate) fn is_ejected(&self, now: Tick) -> bool {
        self.ejected_until.load(Ordering::Relaxed) > now.0
    }

    /// Returns the state at `now`, as a backend of `listener`.
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

    /// Records a successful attempt.
    pub(crate) fn record_success(&self) {
        // Usually there is nothing to reset, and a store would take the cache line from other
        // workers.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.ejections.store(0, Ordering::Relaxed);
        }
    }

    /// Records a failed attempt. If this ejects the backend, returns the length of the ejection.
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
