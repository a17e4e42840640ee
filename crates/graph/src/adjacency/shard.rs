//! One shard of the adjacency: pages by number, and counts of edges and ids.
//!
//! Must never lock, and never keep a page without an edge.

use hashbrown::HashMap;

use super::list::List;
use super::page::{Direction, Page, PageFill};
use crate::key::Key;

/// Pages of the shard. Owned by the adjacency, under its own lock.
#[derive(Default)]
pub(super) struct Shard {
    pages: HashMap<u32, Page>,
    /// Edges whose subscriber is in this shard.
    edges: usize,
    /// Keys in this shard that have an edge and equal their integer id. The dictionary counts the
    /// others.
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

    /// Inserts the lists of a page in one direction. They are counted later, by `count_again`.
    pub(super) fn fill(&mut self, key: Key, direction: Direction, fill: PageFill) {
        let page = self.pages.entry(Page::number(key)).or_default();
        page.fill(direction, fill);
    }

    pub(super) fn set(&mut self, direction: Direction, key: Key, other: Key, present: bool) {
        let page = self.pages.entry(Page::number(key)).or_default();
        if present {
            page.insert(direction, key, other);
        } else {
            page.remove(direction, key, other);
        }
    }

    /// Drops pages without an edge and counts the others. Returns the number of edges from keys of
    /// this shard, and to them.
    pub(super) fn count_again(&mut self) -> (usize, usize) {
        self.pages.retain(|_, page| !page.is_empty());
        let own = self
            .pages
            .iter()
            .filter(|(number, _)| Page::is_own(**number));
        self.own_ids = own.map(|(_, page)| page.ids()).sum();
        self.edges = self.count(Direction::Subscriptions);
        (self.edges, self.count(Direction::Subscribers))
    }

    fn count(&self, direction: Direction) -> usize {
        let pages = self.pages.values();
        pages.map(|page| page.edges(direction)).sum()
    }

    pub(super) fn interned_ids(&self) -> usize {
        let interned = self
            .pages
            .iter()
            .filter(|(number, _)| !Page::is_own(**number));
        interned.map(|(_, page)| page.ids()).sum()
    }

    pub(super) const fn edges(&self) -> usize {
        self.edges
    }

    pub(super) const fn own_ids(&self) -> usize {
        self.own_ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Shard {
        pub(in super::super) fn walk(&self, direction: Direction, each: &mut impl FnMut(Key, Key)) {
            for (&number, page) in &self.pages {
                for key in Page::keys(number) {
                    let mut others = Vec::new();
                    if let Some(list) = page.list(direction, key) {
                        list.slice(None, usize::MAX, &mut others);
                    }
                    others.into_iter().for_each(|other| each(key, other));
                }
            }
        }

        pub(in super::super) fn is_empty(&self) -> bool {
            self.pages.is_empty() && self.edges == 0 && self.own_ids == 0
        }
    }
}
