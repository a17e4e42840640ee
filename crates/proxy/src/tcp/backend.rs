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
    /// Attempts to connect since it is known, and those of them that failed.
    connects: AtomicU64,
    connects_failed: AtomicU64,
    /// What the active checks say.
    well: AtomicBool,
    /// Failures in a row of connections.
    failures: AtomicU32,
    /// Times in a row that it was left alone.
    ejections: AtomicU32,
    ejected_until: AtomicU64,
}

/// What a backend is at, as one listener's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendReport {
    /// Where the proxy listens.
    pub listener: SocketAddr,
    /// As the operator wrote it.
    pub backend: String,
    /// What that means.
    pub address: SocketAddr,
    /// Whether it gets connections.
    pub state: BackendState,
    /// Connections now, attempts included.
    pub connections: u32,
    /// Attempts to connect since it is known.
    pub connects: u64,
    /// Those of them that failed.
    pub connects_failed: u64,
}

/// Whether a backend gets connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendState {
    /// It does.
    Well,
    /// Not for a while, as connections to it have failed; unless all are.
    Ejected,
    /// Not until checks pass.
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

    /// The name, and what it means where that is not the same.
    pub(crate) fn shown(&self) -> String {
        let address = self.address.to_string();
        match self.name == address {
            true => address,
            false => format!("{} ({address})", self.name),
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

    /// What it is at `now`, as `listener`'s backend.
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

    /// A connection is attempted.
    pub(crate) fn begun(&self) {
        self.connects.fetch_add(1, Ordering::Relaxed);
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
