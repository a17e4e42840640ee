//! Requests that wait for key sets.
//!
//! Owns which connections of a worker wait, and how many of them go on in a turn. Their heads are
//! kept by the ingress stage.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use reactor::SlotKey;

use crate::limits::Limits;
use crate::stage::Stage;

/// Connections of a worker that wait for key sets, and those that go on.
#[derive(Debug, Default)]
pub(crate) struct AwaitingKeys {
    waiting: BTreeSet<SlotKey>,
    /// Those whose wait is over. Some may be closed by now.
    released: VecDeque<SlotKey>,
}

impl Stage for AwaitingKeys {
    fn has_work(&self) -> bool {
        !self.released.is_empty()
    }

    fn forget(&mut self, key: SlotKey) {
        self.waiting.remove(&key);
    }
}

impl AwaitingKeys {
    /// Returns whether another request may wait.
    pub(crate) fn has_room(&self, limits: &Limits) -> bool {
        self.waiting.len() + self.released.len() < limits.awaiting_keys_max
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, key: SlotKey) {
        self.waiting.insert(key);
    }

    /// Lets all that wait now go on.
    pub(crate) fn release(&mut self) {
        self.released.extend(mem::take(&mut self.waiting));
    }

    /// Takes the requests that go on in this turn.
    pub(crate) fn take(&mut self, limits: &Limits) -> Vec<SlotKey> {
        let count = self.released.len().min(limits.awaited_keys_per_turn);
        self.released.drain(..count).collect()
    }
}
