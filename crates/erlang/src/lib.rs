//! The Erlang distribution protocol, spoken without a BEAM: a server that is a node of an Erlang cluster.
//!
//! Knows no HTTP. All but the driver take bytes and time, and touch neither sockets nor clocks. Modules in
//! the order in which bytes meet them:

/// Named bounds, each with its reason.
mod limits;
/// What the node counts.
mod metrics;
/// Starting the node, and its one thread: sockets, the clock, chance.
mod driver;
/// Messages to and from epmd.
pub mod epmd;
/// Names of nodes.
mod node_name;
/// The secret of a cluster.
mod cookie;
/// What nodes can do.
mod flags;
/// Bytes to packets.
mod packet;
/// Who the other node is.
mod handshake;
/// Large messages in pieces.
mod fragments;
/// Terms in external format: read where they lie, measured before they are looked at.
pub mod term;
/// What nodes ask of each other.
pub mod control;
/// One connection: bytes to messages.
mod channel;
/// What is not taken.
mod refusal;
/// All connections, and what is owed over each.
mod connections;
/// Bytes that a node is owed.
mod send_buffer;
/// The node: connections, deadlines, calls.
mod node;
/// Who answers: router, subsmanager, net_kernel, any.
mod registry;
/// Terms as ids.
mod ids;
/// How ids were spelt.
mod id_terms;
/// Terms as events.
mod payload;
/// Processes that are logged in.
mod sessions;
/// Calls that wait for a receipt.
mod pending_calls;

/// A node among peers made of bytes, in virtual time.
#[cfg(any(test, fuzzing))]
mod sim;

pub use cookie::Cookie;
pub use driver::{ID_TERMS_FILE, Running, Settings, start};
pub use limits::MESSAGE_BYTES_MAX;
pub use metrics::{Metric, metric_descriptions};
pub use node_name::NodeName;
pub use refusal::Refusal;
#[cfg(fuzzing)]
pub use sim::script::run_script;
