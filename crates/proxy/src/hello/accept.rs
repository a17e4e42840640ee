//! Stage 1: new connections, and which system calls for them are likely to succeed.

use reactor::{Accepted, Acceptor, Driver, RateLimitedWarnings};

use super::adaptive_probe::AdaptiveProbe;
use super::connection_table::ConnectionTable;

/// What an operator can do when a worker has no descriptor left.
const DESCRIPTORS_REMEDY: &str =
    "raise the limit on open files (ulimit -n, LimitNOFILE=) or use --workers N --private-fds";

/// Where a worker accepts. Lives as long as the worker.
#[derive(Debug)]
pub(super) struct Admission<L> {
    pub(super) acceptor: Acceptor<L>,
    /// Whether another client waits behind one that was accepted.
    more_waiting: AdaptiveProbe,
    /// Whether requests come with their connections.
    pub(super) request_ready: AdaptiveProbe,
}

impl<L> Admission<L> {
    /// An admission without listeners.
    pub(super) fn new(warnings: RateLimitedWarnings) -> Self {
        Self {
            acceptor: Acceptor::new(warnings, DESCRIPTORS_REMEDY),
            more_waiting: AdaptiveProbe::default(),
            request_ready: AdaptiveProbe::default(),
        }
    }

    /// Accepts the client that a signal announced.
    pub(super) fn accept<D: Driver<Listener = L>>(
        &mut self,
        table: &mut ConnectionTable<D>,
        id: u32,
    ) -> Accepted<D::Socket> {
        let now = table.now();
        self.acceptor
            .accept(&mut table.driver, &*table.counters, now, id)
    }

    /// Accepts a client that nothing announced, if there is likely one. A client that is left
    /// waiting is announced again.
    pub(super) fn accept_another<D: Driver<Listener = L>>(
        &mut self,
        table: &mut ConnectionTable<D>,
        id: u32,
    ) -> Accepted<D::Socket> {
        if !self.more_waiting.should_try() {
            return Accepted::Nobody;
        }
        let accepted = self.accept(table, id);
        let found = !matches!(accepted, Accepted::Nobody);
        self.more_waiting.record(found);
        accepted
    }
}
