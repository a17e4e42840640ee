//! Sessions with waiting notices.

use std::collections::{HashMap, VecDeque};

use reactor::SlotKey;
use server::SnapshotPlace;

use crate::connections::{ConnectionId, Connections};

/// Sessions with waiting notices.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Sessions to serve, each once.
    pub(super) ready: VecDeque<SlotKey>,
    /// Sessions whose connection has no room.
    pub(super) waiting: HashMap<ConnectionId, Vec<SlotKey>>,
    /// Snapshots in progress or due.
    pub(super) snapshots: HashMap<SlotKey, Snapshot>,
    /// The next slot of a round, in which every session that asked for presence gets a new
    /// snapshot.
    pub(super) round: Option<u32>,
    /// Whether another round must follow.
    pub(super) has_next_round: bool,
}

/// A presence snapshot that is not sent completely.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) place: SnapshotPlace,
    pub(super) is_first: bool,
}

impl Notices {
    /// Drops the notices of a session that has ended.
    pub(super) fn forget(&mut self, slot: SlotKey) {
        // Its entry in `ready` is skipped later.
        self.snapshots.remove(&slot);
    }

    /// Whether there is work to do at once.
    pub(crate) fn has_work(&self, connections: &Connections) -> bool {
        let may_go_on = |&connection: &ConnectionId| is_open(connections, connection);
        !self.ready.is_empty() || self.round.is_some() || self.waiting.keys().any(may_go_on)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let waiting: usize = self.waiting.values().map(Vec::len).sum();
        self.ready.len() + waiting + self.snapshots.len()
    }
}

/// Whether sessions of a connection can be served: it has room, or is closed.
pub(super) fn is_open(connections: &Connections, connection: ConnectionId) -> bool {
    connections.get(connection).is_none() || connections.has_room(connection)
}
