//! State shared by the tasks of a node.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::connection::ConnectionCounts;
use crate::consumer::ConsumerCounts;
use crate::readiness::Signs;
use crate::reading::ReadCounts;
use crate::sending::Outbox;
use crate::stop::{Stop, StopKind};
use crate::stream::LogState;

/// State shared by the tasks of a node.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) reads: Arc<ReadCounts>,
    pub(crate) consumers: Arc<ConsumerCounts>,
    pub(crate) connection: Arc<ConnectionCounts>,
    /// Latest answer of the log's leader.
    pub(crate) log: Mutex<LogState>,
    /// Reason why the node has stopped applying entries.
    pub(crate) stopped: OnceLock<Stop>,
}

impl Shared {
    /// Records that the node has stopped applying entries.
    pub(crate) fn stop(&self, kind: StopKind, reason: String) {
        tracing::error!("this node no longer applies entries of the cluster's log: {reason}");
        // Only the first reason counts, as later ones are its consequences.
        let _ = self.stopped.set(Stop { reason, kind });
    }

    /// Returns the inputs of readiness. `at_start` is the last entry of the log when the node
    /// joined.
    pub(crate) fn signs(&self, outbox: &Outbox, at_start: u64) -> Signs<'_> {
        let contact = &outbox.contact;
        Signs {
            stopped: self.stopped.get().map(|stop| &*stop.reason),
            at_start,
            applied: contact.places().0,
            is_member: outbox.with(|writer| writer.is_live()).unwrap_or(false),
            silence: contact.silence(),
            leaderless: contact.leaderless(),
            lag: contact.lag(),
        }
    }
}
