//! The TCP proxy: what happens to a connection from accept to close.

/// Named bounds, each with its reason.
mod limits;
/// What the operator can set.
mod settings;
/// Starting workers, changing their plan, waiting for their end.
mod proxy;
/// Listeners as all workers see them, and the plan that holds them.
mod front;
/// Backends as all workers see them.
mod backend;
/// What a worker counts.
mod stats;
/// The worker: its parts and its turn.
mod worker;
/// The record of a connection and its backend's.
mod pair;
/// Names of what a worker watches.
mod names;
/// Stage 1: new connections, limits, running out of descriptors.
mod accept;
/// The PROXY protocol: bytes in, bytes out.
pub mod header;
/// Stage 2: the header of a client that another proxy speaks for.
mod greet;
/// Which backend a connection gets.
mod balance;
/// Stage 3: a connection to a backend, and to another if that fails.
mod connect;
/// Stage 4: bytes from one side to the other.
mod relay;
/// Bulk through pipes.
mod splice;
/// Sides that end, and sides that break.
mod ending;
/// Time limits.
mod deadlines;
/// Backends looked after.
mod health;
/// A new plan for a running worker, and its end.
mod reload;
/// The time between a request and its answer.
mod latency;
/// A line for each connection.
mod access;
/// The last stage: the only place where a connection ends.
mod closing;

/// The worker over a simulated network.
#[cfg(test)]
mod sim;

pub use access::{AccessLog, AccessOutput, AccessReopener};
pub use backend::{BackendReport, BackendState};
pub use latency::LatencyReport;
pub use limits::{BACKENDS_MAX, LATENCY_REPORTS_WAITING};
pub use proxy::{Outputs, Proxy, StartError};
pub use settings::{BackendAddress, Balance, Check, HeaderVersion, ListenerSettings, Settings};
pub use stats::{Metric, WorkerStats};
