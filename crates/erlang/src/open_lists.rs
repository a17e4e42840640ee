//! Lists of subscriptions in progress: what was read, and what the graph is applying.

use std::collections::VecDeque;

use graph::Change;
use reactor::Tick;

use crate::connections::ConnectionId;
use crate::id_terms::IdTerm;
use crate::large_list::{ListMessage, ListReader, ListVerb};
use crate::limits::LIST_PART_CHANGES;

/// The number of a list. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListId(pub(crate) u64);

/// The lists in progress.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) open: Vec<OpenList>,
    pub(crate) last: u64,
}

/// A list in progress.
#[derive(Debug)]
pub(crate) struct OpenList {
    pub(crate) id: ListId,
    pub(crate) connection: ConnectionId,
    pub(crate) message: ListMessage,
    /// The caller, a term `{Pid, Tag}`; `None` for a cast.
    pub(crate) from: Option<Box<[u8]>>,
    pub(crate) verb: ListVerb,
    pub(crate) reader: ListReader,
    /// Parts that were read but not submitted. The last one may grow.
    pub(crate) parts: VecDeque<Part>,
    /// Number of subscriptions read.
    pub(crate) read: usize,
    /// Number of changes in the part that the graph is applying.
    pub(crate) in_flight: Option<usize>,
    /// Number of changes made.
    pub(crate) done: usize,
    /// The reason why the rest of the list is not read.
    pub(crate) failure: Option<String>,
    pub(crate) last_arrived: Tick,
}

/// Changes that are submitted to the graph together.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) changes: Vec<Change>,
    pub(crate) id_terms: Vec<IdTerm>,
}

impl Lists {
    /// Whether a list of this connection holds as much as is allowed.
    pub(crate) fn is_waiting(&self, connection: ConnectionId) -> bool {
        self.open
            .iter()
            .any(|list| list.connection == connection && list.is_waiting())
    }

    /// Drops the lists of a connection that has ended. Submitted parts are still applied.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.open.retain(|list| list.connection != connection);
    }

    /// Finds the list that a message belongs to. A list that was read to its end is skipped, as the
    /// next message of its sender may have the same number.
    pub(crate) fn find(&self, connection: ConnectionId, message: ListMessage) -> Option<usize> {
        self.open.iter().position(|list| {
            list.connection == connection && list.message == message && list.is_read_on()
        })
    }
}

impl OpenList {
    pub(crate) fn is_waiting(&self) -> bool {
        let is_full = |part: &Part| part.changes.len() >= LIST_PART_CHANGES;
        self.in_flight.is_some() && self.parts.front().is_some_and(is_full)
    }

    /// Whether more of the message is expected.
    pub(crate) const fn is_read_on(&self) -> bool {
        self.failure.is_none() && !self.reader.has_ended()
    }

    pub(crate) fn fail(&mut self, why: String) {
        if self.failure.is_none() {
            self.failure = Some(why);
            self.parts.clear();
        }
    }

    /// Whether the next part must be submitted to the graph.
    pub(crate) fn is_part_due(&self) -> bool {
        let is_due = |part: &Part| {
            !part.changes.is_empty()
                && (part.changes.len() >= LIST_PART_CHANGES || self.reader.has_ended())
        };
        self.in_flight.is_none() && self.parts.front().is_some_and(is_due)
    }

    /// Whether only the answer remains to be sent.
    pub(crate) fn is_over(&self) -> bool {
        let is_read = self.reader.has_ended() && self.parts.is_empty();
        self.in_flight.is_none() && (is_read || self.failure.is_some())
    }
}
