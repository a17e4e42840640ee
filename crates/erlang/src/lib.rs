//! The Erlang distribution protocol without a BEAM, so that the server is a node of an Erlang
//! cluster.
//!
//! Must never know HTTP. All modules but the driver take bytes and the time as arguments, and touch
//! neither sockets nor clocks. Modules in the order in which bytes pass through them:

/// Named bounds, each with its reason.
mod limits;
/// Metrics of the node.
mod metrics;
/// Start of the node, and its thread: sockets, clock, random numbers.
mod driver;
/// Messages to and from epmd, the port mapper.
pub mod epmd;
/// Node names.
mod node_name;
/// The shared secret of a cluster.
mod cookie;
/// Distribution flags: the capabilities of a node.
mod flags;
/// Packet framing.
mod packet;
/// The handshake, which authenticates both nodes.
mod handshake;
/// Reassembly of fragmented messages.
mod fragments;
/// The external term format, read in place after one validation.
pub mod term;
/// Control messages of the distribution protocol.
pub mod control;
/// Lists of subscriptions that are too large to be held.
mod large_list;
/// The receiving side of one connection: bytes to messages.
mod channel;
/// Reasons for refusing a connection or a message.
mod refusal;
/// All connections and their send queues.
mod connections;
/// The send buffer of a connection.
mod send_buffer;
/// Answers to calls of remote processes.
mod answers;
/// The node: connections, deadlines, and the registered processes.
mod node;
/// Lists of subscriptions in progress.
mod open_lists;
/// Conversion between terms and ids.
mod ids;
/// The original terms of ids.
mod id_terms;
/// Conversion between terms and event payloads.
mod payload;
/// Logins of clients that a process decides on, and the questions about them.
mod login_check;
/// Sessions of processes.
mod sessions;
/// Calls that wait for their answer.
mod pending_calls;
/// Events and changes through the replicated log of a cluster.
mod replicated;

/// A node in virtual time with simulated peers.
#[cfg(any(test, fuzzing, feature = "sim"))]
#[cfg_attr(
    not(test),
    allow(dead_code, unused_imports, reason = "others need a part of it")
)]
pub mod sim;

pub use cookie::Cookie;
pub use driver::{Running, Settings, start};
pub use limits::MESSAGE_BYTES_MAX;
pub use login_check::{LoginCheck, RegisteredName};
pub use metrics::{Metric, metric_descriptions};
pub use node_name::NodeName;
pub use refusal::Refusal;
#[cfg(fuzzing)]
pub use sim::script::run_script;
