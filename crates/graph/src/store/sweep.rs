//! A sweep: what the journal had when it began is folded into the blocks, some blocks with each
//! commit, and then dropped from the journal.
//!
//! Must never hold up a commit for longer than a few blocks take, nor drop what is not folded in
//! both directions. A sweep that is broken off is begun anew: folding twice does no harm.

use redb::WriteTransaction;

use super::block::{other, owner, pair};
use super::blocks::{self, Wanted};
use super::journal::{self, Entry};
use super::tables::{SUBSCRIBERS, SUBSCRIPTIONS};

/// Blocks rewritten with a commit: a quarter of a megabyte more to write.
const BLOCKS_MIN: usize = if cfg!(test) { 1 } else { 64 };

/// A large commit folds a block for so many of its edges. A sweep begins when there are at least
/// that many edges for each block of a large graph, so it ends before the next is due.
const EDGES_PER_BLOCK: usize = 8;

/// Owned by the store while there is something to fold.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The first row that this sweep does not cover.
    end: u64,
    subscriptions: Vec<Wanted>,
    subscribers: Vec<Wanted>,
    /// Done of both, one after the other.
    done: usize,
}

impl Sweep {
    /// A sweep over the journal's `entries`, in their order: all rows below `end`.
    pub(super) fn new(entries: &[Entry], end: u64) -> Self {
        let back = |&(edge, present): &Entry| (pair(other(edge), owner(edge)), present);
        Self {
            end,
            subscriptions: journal::last_of_each(entries.to_vec()),
            subscribers: journal::last_of_each(entries.iter().map(back).collect()),
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
    ) -> Result<(), redb::Error> {
        let blocks = BLOCKS_MIN.max(edges / EDGES_PER_BLOCK);
        let (definition, left) = match self.done.checked_sub(self.subscriptions.len()) {
            None => (SUBSCRIPTIONS, &self.subscriptions[self.done..]),
            Some(done) => (SUBSCRIBERS, &self.subscribers[done..]),
        };
        self.done += blocks::fold(&mut transaction.open_table(definition)?, left, blocks)?;
        if self.is_over() {
            journal::drop_before(transaction, self.end)?;
        }
        Ok(())
    }
}
