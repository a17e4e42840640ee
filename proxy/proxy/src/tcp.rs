//! The TCP proxy. Modules in the order in which a connection passes through them:

/// Bounds, each with its reason.
mod limits;
/// Settings of the operator.
mod settings;
/// The running proxy: start, reload, end.
mod proxy;
/// Listeners, shared by all workers.
mod frontend;
/// Backends, shared by all workers.
mod backend;
/// Metrics of a worker.
mod metrics;
/// The worker: the order of the stages.
mod worker;
/// Next steps that a stage requests from the worker.
mod effect;
/// Ids of sockets in the poller's tokens.
mod socket_id;
/// Record of a client's connection and its backend connection.
mod pair;
/// Table of all pairs of a worker, with the driver, the counters, the timers and the clock.
mod pair_table;
/// Stage 1: limits on connections.
mod accept;
/// Stage 2: the PROXY header from a client.
mod client_header;
/// Choice of a backend.
mod balance;
/// Stage 3: connecting to a backend, with retries.
mod connect;
/// The PROXY header for a backend.
mod backend_header;
/// Stage 4: relaying bytes.
mod relay;
/// Pipes for bulk transfer.
mod pipe_pool;
/// Stage 5: half-close and resets.
mod teardown;
/// Time limits.
mod deadlines;
/// Health checks of backends.
mod health;
/// Reload and drain of a running worker.
mod reload;
/// Time between a request and its answer.
mod latency;
/// Access log: one line for each closed connection.
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a thread of its own waits for the disk, and has its own clock"
)]
mod access_log;
/// Reasons why pairs are closed.
mod close_reason;
/// Stage 6: removal of closed pairs.
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
