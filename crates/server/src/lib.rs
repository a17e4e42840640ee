//! The data path: what happens to a connection from accept to close, and to an event from mailbox
//! to socket. One worker for each core, no async runtime, no buffer for an idle session.

/// Named bounds, each with its reason.
mod limits;
/// Settings of the data path, and those that a reload can change.
mod settings;
/// Observer of sessions.
mod observer;
/// Logins that a program outside decides on.
mod login_check;
/// Requests and sessions, a line each.
mod access_log;
/// Locks and condition variables of queues to other threads.
mod sync;
/// Policies for slow readers.
mod slow_policy;
/// Public listeners.
mod listener;
/// Start of the workers, and the wait for their end.
mod server;
/// Reasons why a server does not start.
mod start_error;
/// Mail to workers.
mod mail;
/// Mailboxes of all workers, for the router.
mod post;
/// Handle by which other threads reach a running server.
mod handle;
/// Deliveries that a full mailbox refused.
mod losses;
/// External workers: sessions on threads of other crates.
mod external;
/// Metrics of a worker.
mod stats;
/// State shared by all workers.
mod shared;
/// What all stages of a worker are asked for alike.
mod stage;
/// Worker: the stages, and the control flow between them.
mod worker;
/// The session that is open on a connection.
mod open_session;
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
/// Events that clients publish.
mod client_publish;
/// Short answers: pages, errors, preflights.
mod answer;
/// What streams and polls alike are asked for.
mod stream_query;
/// Demo page.
mod demo;
/// Parcels in flight in a worker.
mod parcel;
/// Fan-out: deliveries to frames.
mod fanout;
/// Sessions that are fed from the history.
mod replay;
/// Who is online, as clients are told.
mod presence;
/// Events of a turn, encoded once for each encoding.
mod frames;
/// Latencies of deliveries.
mod latency;
/// Heartbeats on idle streams.
mod heartbeat;
/// Reports on sessions.
mod inspect;
/// Search for the sessions with the largest backlogs.
mod slowest;
/// Budget of buffers, over all workers.
mod budget;
/// Search for the buffers that give way.
mod give_way;
/// Drain: the graceful end of a worker.
mod drain;

/// The worker over a simulated network.
#[cfg(any(test, feature = "sim"))]
pub mod sim;

pub use wire::host::{AllowedHosts, HostPattern};
pub use wire::target::IDS_MAX;

pub use access_log::{AccessEntry, AccessLog, AccessLogCounts, AccessWork};
pub use client_publish::{EventPublisher, PublishDone, PublishError};
pub use demo::DemoPage;
pub use external::{ExternalWorker, WorkerCommand};
pub use handle::{Handle, PendingReload};
pub use identity::{KeyFetcher, Standing, TicketNews};
pub use listener::{Listener, ListenerKind, ListenerSocket};
pub use login_check::{LoginChecker, LoginQuestion, LoginVerdict};
pub use mail::{GapReport, SessionReport};
pub use observer::{ObservedSession, Observer, SessionObserver};
pub use post::Post;
pub use presence::{
    BackendSink, Presence, PresenceCounts, PresenceLog, ProcessEdge, ProcessEdges, SnapshotPlace,
};
pub use server::Server;
pub use settings::{LiveSettings, PresenceSettings, Settings};
pub use slow_policy::SlowPolicy;
pub use start_error::StartError;
pub use stats::{Metric, ServerStats, WorkerStats};
