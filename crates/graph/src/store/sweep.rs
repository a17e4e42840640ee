//! A sweep: the journal's entries at its start are folded into the blocks, some blocks with each
//! commit, and then dropped from the journal.
//!
//! Must never delay a commit by more than a few blocks, and never drop entries that are not folded
//! in both directions. An interrupted sweep starts again, as folding twice has no effect.

use redb::WriteTransaction;

use super::block::{other, owner, pair};
use super::blocks;
use super::journal::{self, Entry};
use super::tables::{SUBSCRIBERS, SUBSCRIPTIONS};
use crate::limits::Limits;

/// Number of a commit's edges for each block that the commit folds. A sweep begins when there are
/// at least as many edges for each block of a large graph, so it ends before the next one is due.
const EDGES_PER_BLOCK: usize = 8;

/// State of a sweep. Owned by the store as long as there is something to fold.
#[derive(Debug)]
pub(super) struct Sweep {
    /// First row that this sweep does not cover.
    end: u64,
    subscriptions: Vec<Entry>,
    subscribers: Vec<Entry>,
    /// Number of changes folded: first of the subscriptions, then of the subscribers.
    done: usize,
}

impl Sweep {
    /// Creates a sweep over the `entries` of all rows of the journal below `end`, in order.
    pub(super) fn new(entries: &[Entry], end: u64) -> Self {
        let back = |&(edge, present): &Entry| (pair(other(edge), owner(edge)), present);
        Self {
            end,
            subscriptions: journal::keep_latest(entries.to_vec()),
            subscribers: journal::keep_latest(entries.iter().map(back).collect()),
            done: 0,
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.done == self.subscriptions.len() + self.subscribers.len()
    }

    /// Folds some blocks as part of a commit of `edges` edges.
    pub(super) fn step(
        &mut self,
        transaction: &WriteTransaction,
        edges: usize,
        limits: &Limits,
    ) -> Result<(), redb::Error> {
        let blocks = limits.blocks_per_commit_min.max(edges / EDGES_PER_BLOCK);
        let (definition, left) = match self.done.checked_sub(self.subscriptions.len()) {
            None => (SUBSCRIPTIONS, &self.subscriptions[self.done..]),
            Some(done) => (SUBSCRIBERS, &self.subscribers[done..]),
        };
        let mut table = transaction.open_table(definition)?;
        self.done += blocks::fold(&mut table, left, blocks, limits.block_bytes_max)?;
        if self.is_over() {
            journal::drop_before(transaction, self.end)?;
        }
        Ok(())
    }
}
