//! The data path: what happens to a connection from accept to close, and to an event from mailbox
//! to socket. One worker for each core, no async runtime, no buffer for an idle session.

/// Named bounds, each with its reason.
mod limits;
/// What the operator can set.
mod settings;
/// Starting workers, and waiting for their end.
mod server;
/// What other threads put into a worker's mailbox, and the handle they do it with.
mod mail;
/// Workers on threads of other crates.
mod external;
/// What a worker counts.
mod stats;
/// The worker: its parts and its turn.
mod worker;
/// The time, read once for each turn.
mod clock;
/// The record of a connection.
mod connection;
/// Stage 1: new connections, limits, running out of descriptors.
mod accept;
/// Stage 2: bytes to requests.
mod ingress;
/// Stage 3: requests to answers or sessions.
mod session;
/// Short answers: pages, errors, preflights.
mod answer;
/// A parcel of events, shared by its deliveries until all are through.
mod load;
/// Stage 4: deliveries to frames owed.
mod fanout;
/// An event's encoded bytes.
mod palette;
/// Stage 5: frames that a full socket must wait for.
mod backlog;
/// Stage 6: bytes to sockets; owner of the writable bit.
mod egress;
/// Heartbeats and time limits.
mod deadlines;
/// The page when it may publish, and the secret of its requests.
mod demo;
/// Requests of the page that the control API answers.
mod relay;
/// What control threads ask about sessions.
mod inspect;
/// Who is owed most.
mod slowest;
/// A gentle end.
mod drain;
/// The last stage: the only place where a connection ends.
mod closing;

/// The worker over a simulated network.
#[cfg(test)]
mod sim;

pub use wire::target::IDS_MAX;

pub use demo::{DemoPage, DemoSecret};
pub use external::{ExternalWorker, WorkerCommand};
pub use mail::{Handle, Post, Relay, RelayRequest, RelayResponse, SessionReport};
pub use server::{Listener, Server, StartError};
pub use settings::Settings;
pub use stats::{Metric, ServerStats, WorkerStats};
