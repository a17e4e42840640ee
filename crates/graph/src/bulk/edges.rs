//! Edges of a bulk load, sorted in place by two threads.
//!
//! Must never store the edges twice: thirty million are a quarter of a gigabyte.

use std::thread;

use crate::adjacency::Direction;
use crate::key::Key;
use crate::store::{Pair, other, owner, pair};

/// Edges, all in the same direction. Owned by the load.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pairs: Vec<Pair>,
    direction: Direction,
}

impl Edges {
    /// Adds an edge. Only before the first sort.
    pub(super) fn push(&mut self, subscriber: Key, subject: Key) {
        self.pairs.push(pair(subscriber.number(), subject.number()));
    }

    /// Returns the number of edges added, including duplicates.
    pub(super) const fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Converts all edges to `direction` and sorts them, in two halves concurrently.
    pub(super) fn sort(&mut self, direction: Direction) {
        let turn = direction != self.direction;
        self.direction = direction;
        let middle = self.pairs.len() / 2;
        let (left, right) = self.pairs.split_at_mut(middle);
        let sort = |half: &mut [Pair]| {
            if turn {
                for edge in half.iter_mut() {
                    *edge = pair(other(*edge), owner(*edge));
                }
            }
            half.sort_unstable();
        };
        thread::scope(|scope| {
            scope.spawn(|| sort(left));
            sort(right);
        });
    }

    /// Iterates over all edges, ascending, each once. Only after a sort.
    pub(super) fn iter(&self) -> impl Iterator<Item = Pair> {
        let (left, right) = self.pairs.split_at(self.pairs.len() / 2);
        let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
        let mut last = None;
        std::iter::from_fn(move || {
            loop {
                let next = match (left.peek(), right.peek()) {
                    (Some(a), Some(b)) if b < a => right.next(),
                    (Some(_), _) => left.next(),
                    (None, _) => right.next(),
                };
                let next = *next?;
                if last.replace(next) != Some(next) {
                    return Some(next);
                }
            }
        })
    }
}
