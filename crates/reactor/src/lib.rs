//! The per-core event loop: turn, poller, listeners, mailboxes, deadlines, slab, worker threads.
//!
//! Knows no HTTP. Every system call of the data path is one line here, with its surprises handled.
//! Modules in the order in which a worker meets them:

/// Threads with descriptor tables of their own.
mod thread;
/// Keepalive probes of connections.
mod keepalive;
/// Listening sockets and the options that accepted sockets inherit.
mod listener;
/// Interface of a worker to the kernel, real or simulated.
mod driver;
/// Extension of that interface for workers that relay bytes.
mod relay;
/// The real kernel: one epoll instance and its sockets.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the kernel's clocks, for every crate above it"
)]
mod system;
/// Byte counts of a TCP connection, from the kernel.
mod diagnosis;
/// The turn: wait, act, sleep.
mod event_loop;
/// The time of a turn, and time stamps for records.
mod clock;
/// Time spent by a worker, by stage.
mod timing;
/// Metrics of workers.
mod metrics;
/// Histograms of latencies, and the clock behind them.
mod latency;
/// Listeners of a worker, and the pause in accepting.
mod acceptor;
/// Limits on connections from one source address.
mod source;
/// What a mailbox is made of.
mod sync;
/// Messages from other threads, with a wake-up.
mod mailbox;
/// Records in chunks, named by slot and generation.
mod slab;
/// A scan over all slots, in place of a timer each.
mod slot_scan;
/// Timer wheel: deadlines that fire late rather than early.
mod wheel;
/// Rate-limited warnings.
mod warnings;

pub use acceptor::{Acceptor, Open};
pub use clock::{Clock, Tenths};
pub use diagnosis::{Diagnosis, TcpInfo};
pub use driver::{Accepted, Driver, Interest, Received, Sent, Signal, Tick, Token};
pub use event_loop::{EventLoop, Handler};
pub use keepalive::Keepalive;
pub use latency::{Latencies, LatencyHistogram, SharedClock};
pub use listener::{ListenerOptions, Reservation, SendBuffer, listen};
pub use mailbox::Mailbox;
pub use metrics::{Count, Counters, MetricDescription, MetricKind, MetricSet, Snapshot};
pub use relay::{ConnectOptions, RelayDriver};
pub use slab::{Slab, Slot, SlotKey};
pub use slot_scan::SlotScan;
pub use source::{Source, SourceCounts};
pub use system::{Pipe, SharedPoller, System};
pub use thread::spawn;
pub use timing::Timing;
pub use warnings::RateLimitedWarnings;
pub use wheel::Wheel;
