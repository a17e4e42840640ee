//! Fills one direction of an empty adjacency from sorted edges.
//!
//! Lists are created in their final size and packed in the order in which they will be read. The
//! two directions may be filled concurrently. Must never be used on a list that exists.

use super::list::List;
use super::page::{Direction, Page, PageFill};
use super::{Adjacency, shard_of};
use crate::key::Key;

/// State of filling one direction.
pub(crate) struct Filler<'a> {
    adjacency: &'a Adjacency,
    direction: Direction,
    /// The key whose list is being collected.
    owner: Option<Key>,
    others: Vec<Key>,
    page: PageFill,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(adjacency: &'a Adjacency, direction: Direction) -> Self {
        Self {
            adjacency,
            direction,
            owner: None,
            others: Vec::new(),
            page: PageFill::default(),
        }
    }

    /// Adds edges of `owner`. Owners, and the edges of an owner, must ascend.
    pub(crate) fn push(&mut self, owner: Key, others: &[Key]) {
        if self.owner != Some(owner) {
            self.end_list();
            if self
                .owner
                .is_some_and(|last| Page::number(last) != Page::number(owner))
            {
                self.end_page();
            }
            self.owner = Some(owner);
        }
        self.others.extend_from_slice(others);
    }

    /// Inserts the last list. All edges are in the adjacency then.
    pub(crate) fn end(mut self) {
        self.end_list();
        self.end_page();
    }

    fn end_list(&mut self) {
        if let Some(owner) = self.owner.filter(|_| !self.others.is_empty()) {
            self.page.push(owner, List::of_sorted(&self.others));
            self.others.clear();
        }
    }

    fn end_page(&mut self) {
        if let Some(owner) = self.owner {
            let mut shard = self.adjacency.shards[shard_of(owner)].write();
            shard.fill(owner, self.direction, std::mem::take(&mut self.page));
        }
    }
}
