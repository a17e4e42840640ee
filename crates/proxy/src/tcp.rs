//! The TCP proxy. Modules in the order in which a connection meets them:

/// Bounds, each with its reason.
mod limits;
/// What the operator can set.
mod settings;
/// The running proxy: start, reload, end.
mod proxy;
/// Listeners as all workers see them.
mod frontend;
/// Backends as all workers see them.
mod backend;
/// What a worker counts.
mod metrics;
/// The worker: the order of the stages.
mod worker;
/// What a stage asks of the worker.
mod effect;
/// Sockets as the poller names them.
mod socket_id;
/// The record of a client's connection and its backend's.
mod pair;
/// All pairs of a worker, with the driver, the counters, the timers and the clock.
mod pair_table;
/// Stage 1: limits on connections.
mod accept;
/// Stage 2: the PROXY header that a client sends first.
mod client_header;
/// The choice of a backend.
mod balance;
/// Stage 3: a connection to a backend, and to another if that fails.
mod connect;
/// The PROXY header that a backend is sent first.
mod backend_header;
/// Stage 4: bytes from one side to the other.
mod relay;
/// Pipes for bulk.
mod pipe_pool;
/// Stage 5: a side that has ended or broken.
mod teardown;
/// Time limits.
mod deadlines;
/// Health checks of backends.
mod health;
/// New listeners for a running worker, and its end.
mod reload;
/// The time between a request and its answer.
mod latency;
/// A line for each connection that has ended.
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a thread of its own waits for the disk, and has its own clock"
)]
mod access_log;
/// Stage 6: the only place where a pair is removed.
mod close;

/// The worker over a simulated network.
#[cfg(test)]
mod sim;

pub use access_log::{AccessLog, AccessOutput, AccessReopener};
pub use backend::{BackendReport, BackendState};
pub use latency::LatencyReport;
pub use limits::{BACKENDS_MAX, LATENCY_REPORTS_WAITING};
pub use metrics::Metric;
pub use proxy::{Outputs, Proxy, StartError};
pub use settings::{BackendAddress, Balance, Check, HeaderVersion, ListenerSettings, Settings};
