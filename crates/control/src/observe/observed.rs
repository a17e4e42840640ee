//! What is looked at: the one thing that programs have to offer to it.

use std::sync::Arc;

use proxy::hello;
use proxy::tcp::{BackendReport, Proxy};
use reactor::Snapshot;

/// A running program.
pub trait Observed: Send + Sync + 'static {
    /// The command that runs it.
    fn name(&self) -> &'static str;

    /// What its workers have counted.
    fn snapshot(&self) -> Snapshot;

    /// Whether it has begun to end.
    fn is_ending(&self) -> bool;

    /// Where it connects to, if it does.
    fn backends(&self) -> Option<Vec<BackendReport>>;
}

impl Observed for Arc<Proxy> {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn snapshot(&self) -> Snapshot {
        Proxy::snapshot(self)
    }

    fn is_ending(&self) -> bool {
        Proxy::is_ending(self)
    }

    fn backends(&self) -> Option<Vec<BackendReport>> {
        Some(Proxy::backends(self))
    }
}

impl Observed for hello::Handle {
    fn name(&self) -> &'static str {
        "hello"
    }

    fn snapshot(&self) -> Snapshot {
        Self::snapshot(self)
    }

    fn is_ending(&self) -> bool {
        Self::is_ending(self)
    }

    fn backends(&self) -> Option<Vec<BackendReport>> {
        None
    }
}
