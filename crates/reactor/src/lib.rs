//! The per-core event loop's parts: poller, listeners, mailboxes, timer wheel, slab, worker threads.
//!
//! Knows no HTTP. Every system call of the data path is one line here, with its surprises handled.

/// Threads with descriptor tables of their own.
mod thread;
/// Listeners and the options that accepted sockets inherit.
mod listener;
/// What a worker asks of the kernel, so that a simulated one can answer.
mod driver;
/// What a worker that passes bytes on asks beyond that.
mod relay;
/// The kernel's answers: one epoll instance and its sockets.
mod system;
/// What workers count.
mod metrics;
/// Where a worker's time goes.
mod timing;
/// Messages from other threads, with a wake-up.
mod mailbox;
/// Records in chunks, named by slot and generation.
mod slab;
/// Deadlines, fired late rather than early.
mod wheel;
/// What the kernel knows of a TCP connection.
mod diagnosis;

pub use diagnosis::{Diagnosis, TcpInfo};
pub use driver::{Accepted, Driver, Received, Sent, Signal, Tick, Token};
pub use listener::{ListenerOptions, Reservation, adopt, listen};
pub use mailbox::Mailbox;
pub use metrics::{Counters, MetricDescription, MetricKind, MetricSet, Snapshot};
pub use relay::{ConnectOptions, Relay};
pub use slab::{Slab, Slot, SlotKey};
pub use system::{Pipe, SharedPoller, System};
pub use thread::spawn;
pub use timing::Timing;
pub use wheel::Wheel;
