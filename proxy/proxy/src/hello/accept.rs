//! Stage 1: new connections, and which system calls for them are likely to succeed.

use reactor::{Accepted, Acceptor, Driver, RateLimitedWarnings};

use super::adaptive_probe::AdaptiveProbe;
use super::connection_table::ConnectionTable;

/// Advice for operators when a worker has no descriptor left.
const DESCRIPTORS_REMEDY: &str =
    "raise the limit on open files (ulimit -n, LimitNOFILE=) or use --workers N --private-fds";

/// Admission of new connections. Lives as long as the worker.
#[derive(Debug)]
pub(super) struct Admission<L> {
    pub(super) acceptor: Acceptor<L>,
    /// Whether another client is likely to wait after one was accepted.
    more_waiting: AdaptiveProbe,
    /// Whether requests are likely to arrive with their connections.
    pub(super) request_ready: AdaptiveProbe,
}

impl<L> Admission<L> {
    /// Makes an admission without listeners.
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

    /// Accepts another client without a signal, if one is likely to wait. A client that is left
    /// waiting is signalled again.
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
