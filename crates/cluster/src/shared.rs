//! State shared by the tasks and threads of a node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_nats::Client;
use async_nats::connection::State;
use parking_lot::Mutex;
use replication::{
    Answer, EngineStatus, Finished, Incarnation, Membership, NodeCounters, Receipts,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::connection::ConnectionCounts;
use crate::error::{Stop, StopKind};
use crate::options::Name;
use crate::outbox::Outbox;
use crate::readiness::Signs;
use crate::stream::{LogState, LogStream};
use crate::waiting::{Waiting, complete};

/// Interface of a node to the server in which it runs. Called on threads of the cluster; no call
/// may block.
pub trait Host: Send + Sync + 'static {
    /// Returns the counters of the server. The node fills in those of the log.
    fn counters(&self) -> NodeCounters;

    /// Returns whether the server is draining.
    fn is_draining(&self) -> bool;

    /// Starts to send clients to other nodes; the server ends when that is done.
    fn drain(&self);
}

/// State shared by the tasks and threads of a node.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) stream: LogStream,
    pub(crate) cluster: Name,
    /// Name of this node, and version of its program.
    pub(crate) node: Name,
    pub(crate) version: Box<str>,
    /// Last entry of the log when the node joined.
    pub(crate) at_start: u64,
    /// Runtime of the tasks.
    pub(crate) runtime: Handle,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) outbox: Outbox,
    pub(crate) receipts: Mutex<Receipts<Vec<Finished<Waiting>>>>,
    pub(crate) membership: Mutex<Membership>,
    /// Incarnation of an earlier node with the same name, if there is one. Then this node must end.
    pub(crate) namesake: OnceLock<Incarnation>,
    /// Answers that wait to be sent to the writers of the entries.
    pub(crate) answers: mpsc::Sender<(Box<str>, Answer)>,
    pub(crate) connection: Arc<ConnectionCounts>,
    pub(crate) counts: Counts,
    /// Latest answer of the log's leader.
    pub(crate) log: Mutex<LogState>,
    /// Reason why the node has stopped applying entries.
    pub(crate) stopped: OnceLock<Stop>,
}

/// Counters of the entries that were read, and of the consumers that delivered them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Number of entries that counted.
    pub(crate) applied: AtomicU64,
    /// Number of entries that did not.
    pub(crate) skipped: AtomicU64,
    /// Number of consumers created, including the first one.
    pub(crate) consumers: AtomicU64,
    /// Number of consumers replaced because they were silent or stalled.
    pub(crate) consumers_silent: AtomicU64,
    /// Number of consumers replaced because a message was missing or differed.
    pub(crate) consumers_skipped: AtomicU64,
}

impl Shared {
    /// Records that the node has stopped applying entries.
    pub(crate) fn stop(&self, kind: StopKind, reason: String) {
        tracing::error!("this node no longer applies entries of the cluster's log: {reason}");
        // Only the first reason counts, as later ones are its consequences.
        let _ = self.stopped.set(Stop { reason, kind });
    }

    /// Records the answer of a node to an entry of this one.
    pub(crate) fn answer(&self, node: Incarnation, answer: Answer) {
        let receipt = self.receipts.lock().answer(node, answer);
        complete(receipt);
    }

    /// Returns whether there is a connection to the engine.
    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns the inputs of readiness.
    pub(crate) fn signs(&self) -> Signs<'_> {
        let contact = &self.outbox.contact;
        Signs {
            stopped: self.stopped.get().map(|stop| &*stop.reason),
            at_start: self.at_start,
            applied: contact.applied(),
            is_member: self.outbox.with(|writer| writer.is_live()).unwrap_or(false),
            silence: contact.silence(),
            leaderless: contact.leaderless(),
            lag: contact.lag(),
        }
    }

    /// Returns the status of the engine: the latest state of the log, and counters.
    pub(crate) fn engine(&self) -> EngineStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let server = || self.client.server_info().server_name.into();
        let log = self.log.lock().clone();
        EngineStatus {
            server: self.is_connected().then(server),
            leader: log.leader,
            leaderless: self.outbox.contact.leaderless(),
            followers: log.followers,
            first: log.first,
            bytes: log.bytes,
            bytes_max: log.bytes_max,
            connects: count(&self.connection.connected),
            disconnects: count(&self.connection.disconnected),
            dropped: count(&self.connection.dropped),
            consumers: count(&self.counts.consumers),
            consumers_silent: count(&self.counts.consumers_silent),
            consumers_skipped: count(&self.counts.consumers_skipped),
        }
    }
}
