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
/// What all workers share.
mod shared;
/// The worker: its stages, and what happens between them.
mod worker;
/// Records, sockets, backlogs and deadlines of all connections.
mod table;
/// Limits on connections.
mod admission;
/// Bytes to requests.
mod ingress;
/// Requests to answers or streams.
mod session;
/// Short answers: pages, errors, preflights.
mod answer;
/// The page when it may publish, and the secret of its requests.
mod demo;
/// Requests of the page that the control API answers.
mod page_request;
/// A parcel of events that is under way in a worker.
mod parcel;
/// Deliveries to frames owed.
mod fanout;
/// Events of a turn, encoded once for each transport.
mod frames;
/// Signs of life on idle streams.
mod heartbeat;
/// Reports on sessions.
mod inspect;
/// The readers with the largest backlogs.
mod slowest;
/// The gentle end of a worker.
mod drain;

/// The worker over a simulated network.
#[cfg(test)]
mod sim;

pub use wire::target::IDS_MAX;

pub use demo::{DemoPage, DemoSecret};
pub use external::{ExternalWorker, WorkerCommand};
pub use mail::{Handle, PageHandler, PageRequest, PageResponse, Post, SessionReport};
pub use server::{Listener, Server, StartError};
pub use settings::Settings;
pub use stats::{Metric, ServerStats, WorkerStats};
