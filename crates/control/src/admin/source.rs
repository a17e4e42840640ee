//! The interface between the admin endpoints and a program, and the data that crosses it.

use std::net::SocketAddr;

use reactor::Snapshot;
use serde::Serialize;

/// A running program with read-only admin endpoints.
pub trait AdminSource: Send + Sync + 'static {
    /// Returns the command that runs the program: `proxy` or `hello`.
    fn program(&self) -> &'static str;

    /// Returns the metrics of its workers.
    fn snapshot(&self) -> Snapshot;

    /// Returns whether the program is shutting down.
    fn is_draining(&self) -> bool;

    /// Returns its backends, if it is a proxy.
    fn backends(&self) -> Option<Backends>;
}

/// The backends of all listeners of a proxy at one time.
#[derive(Debug, Clone)]
pub struct Backends {
    /// Every state that a backend can be in, in the order in which metrics list them.
    pub states: &'static [&'static str],
    /// A report for each backend of each listener, in the order of the configuration.
    pub reports: Vec<BackendReport>,
}

/// A backend of one listener at one time.
#[derive(Debug, Clone, Serialize)]
pub struct BackendReport {
    /// The address of the listener.
    pub listener: SocketAddr,
    /// The backend as the configuration names it.
    pub backend: String,
    /// The address that the name stands for.
    pub address: SocketAddr,
    /// One of [`Backends::states`].
    pub state: &'static str,
    /// Open connections, including attempts to connect.
    pub connections: u32,
    /// Attempts to connect since the backend was added.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connects_failed: u64,
}
