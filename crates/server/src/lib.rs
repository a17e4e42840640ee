//! The data path: what happens to a connection from accept to close, and to an event from mailbox
//! to socket. One worker for each core, no async runtime, no buffer for an idle session.

/// Named bounds, each with its reason.
mod limits;
/// Settings of the data path, and those that a reload can change.
mod settings;
/// Public listeners.
mod listener;
/// Start of the workers, and the wait for their end.
mod server;
/// Mail to workers, and the handle by which other threads send it.
mod mail;
/// External workers: sessions on threads of other crates.
mod external;
/// Metrics of a worker.
mod stats;
/// State shared by all workers.
mod shared;
/// Worker: the stages, and the control flow between them.
mod worker;
/// Records, sockets, backlogs and deadlines of all connections.
mod table;
/// Addresses of clients behind trusted proxies.
mod client_address;
/// Limits on connections.
mod admission;
/// Refusal of connections and streams that there is no room for.
mod refusal;
/// Bytes to requests.
mod ingress;
/// Who may open which session.
mod identity;
/// Ends of identities behind sessions.
mod lease;
/// Requests to answers or streams.
mod session;
/// Short answers: pages, errors, preflights.
mod answer;
/// Demo page, and the secret of its requests.
mod demo;
/// Requests of the demo page, which the control API answers.
mod page_request;
/// Parcels in flight in a worker.
mod parcel;
/// Fan-out: deliveries to frames.
mod fanout;
/// Events of a turn, encoded once for each transport.
mod frames;
/// Heartbeats on idle streams.
mod heartbeat;
/// Reports on sessions.
mod inspect;
/// Search for the sessions with the largest backlogs.
mod slowest;
/// Drain: the graceful end of a worker.
mod drain;

/// The worker over a simulated network.
#[cfg(test)]
mod sim;

pub use wire::host::{AllowedHosts, HostPattern};
pub use wire::target::IDS_MAX;

pub use demo::{DemoPage, DemoSecret};
pub use external::{ExternalWorker, WorkerCommand};
pub use identity::KeyFetcher;
pub use listener::{Listener, ListenerKind, ListenerSocket};
pub use mail::{
    Handle, PageHandler, PageRequest, PageResponse, PendingReload, Post, SessionReport,
};
pub use server::{Server, StartError};
pub use settings::{LiveSettings, Settings};
pub use stats::{Metric, ServerStats, WorkerStats};
