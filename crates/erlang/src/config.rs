//! The identity and the limits of the node.

use std::sync::Arc;
use std::time::Duration;

use replication::Append;
use router::WorkerId;
use server::{Observer, Presence};

use crate::handshake::LocalNode;
use crate::node_name::NodeName;
use crate::registry::LoginQuestions;

/// The identity and the limits of the node.
pub(crate) struct Config {
    pub(crate) me: LocalNode,
    /// Identifies the node among the server's workers.
    pub(crate) worker: WorkerId,
    pub(crate) event_bytes_max: usize,
    pub(crate) tick_time: Duration,
    /// Nodes to stay connected with.
    pub(crate) connect: Vec<NodeName>,
    /// The log of the cluster of servers, if there is one.
    pub(crate) log: Option<Arc<dyn Append>>,
    /// Whether the server accepts no clients, as it has not yet applied the log or cannot reach it.
    pub(crate) is_paused: Box<dyn Fn() -> bool + Send>,
    /// The process that decides on logins of clients, if there is one.
    pub(crate) logins: Option<LoginQuestions>,
    /// The presence of ids, if the server tracks it.
    pub(crate) presence: Option<Arc<Presence>>,
    /// Observer of sessions, if there is one.
    pub(crate) observer: Option<Observer>,
}
