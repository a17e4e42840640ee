//! One shard of the adjacency: pages by number, and what is counted in them.
//!
//! Must never lock, nor keep a page without an edge.

use hashbrown::HashMap;

use super::list::List;
use super::page::{Direction, Page};
use crate::key::Key;

/// Owned by the adjacency under a lock of its own.
#[derive(Default)]
pub(super) struct Shard {
    pages: HashMap<u32, Page>,
    /// Edges whose subscriber is in this shard.
    edges: usize,
    /// Keys in this shard that have an edge and are their id; the dictionary counts the others.
    own_ids: usize,
}

impl Shard {
    pub(super) fn list(&self, direction: Direction, key: Key) -> Option<&List> {
        self.pages.get(&Page::number(key))?.list(direction, key)
    }

    pub(super) fn insert(&mut self, direction: Direction, key: Key, other: Key) -> bool {
        let page = self.pages.entry(Page::number(key)).or_default();
        let had_edges = page.has_edges(key);
        let new = page.insert(direction, key, other);
        self.own_ids += usize::from(!had_edges && key.is_own());
        self.edges += usize::from(new && direction == Direction::Subscriptions);
        new
    }

    pub(super) fn remove(&mut self, direction: Direction, key: Key, other: Key) -> bool {
        let Some(page) = self.pages.get_mut(&Page::number(key)) else {
            return false;
        };
        let there = page.remove(direction, key, other);
        self.own_ids -= usize::from(there && !page.has_edges(key) && key.is_own());
        self.edges -= usize::from(there && direction == Direction::Subscriptions);
        if page.is_empty() {
            self.pages.remove(&Page::number(key));
        }
        there
    }

    pub(super) const fn edges(&self) -> usize {
        self.edges
    }

    pub(super) const fn own_ids(&self) -> usize {
        self.own_ids
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.edges == 0 && self.own_ids == 0
    }
}
