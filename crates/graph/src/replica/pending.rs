//! Changes that are in memory and not on disk.

use std::collections::BTreeMap;

use crate::batch::{EdgeChange, Net};
use crate::id::Id;
use crate::key::Key;
use crate::rows::{self, RowChanges};

/// Changes of several batches, in order.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    edges: Vec<EdgeChange>,
    /// The last word on the names of interned keys: an id, and whether the key has it still. Said
    /// of every key that was touched: a commit that failed may be in the file all the same.
    names: BTreeMap<Key, (Id, bool)>,
    rows: RowChanges,
    rows_weight: usize,
}

impl Pending {
    /// Returns the number of edges, repeated ones too, and what rows weigh in edges.
    pub(crate) const fn edges(&self) -> usize {
        self.edges.len() + self.rows_weight
    }

    /// Adds changes of rows.
    pub(crate) fn add_rows(&mut self, rows: RowChanges) {
        self.rows_weight += rows::weight(&rows);
        self.rows.extend(rows);
    }

    /// Returns the changes of rows.
    pub(crate) const fn rows(&self) -> &RowChanges {
        &self.rows
    }

    /// Adds the changes of a batch.
    pub(crate) fn add(&mut self, net: &Net) {
        self.edges.extend_from_slice(&net.edges);
        let gone = net
            .unnamed
            .iter()
            .map(|(key, id)| (*key, (id.clone(), false)));
        let come = net.named.iter().map(|(key, id)| (*key, (id.clone(), true)));
        self.names.extend(gone.chain(come));
    }

    /// Adds later changes.
    pub(crate) fn append(&mut self, later: Self) {
        self.edges.extend(later.edges);
        self.names.extend(later.names);
        self.rows.extend(later.rows);
        self.rows_weight += later.rows_weight;
    }

    /// Returns what comes of all changes.
    pub(crate) fn net(&self) -> Net {
        let mut last: Vec<EdgeChange> = self.edges.iter().rev().copied().collect();
        // Stable, so the first of equals is the latest.
        last.sort_by_key(|edge| (edge.subscriber, edge.subject));
        last.dedup_by_key(|edge| (edge.subscriber, edge.subject));
        let mut net = Net {
            edges: last,
            ..Net::default()
        };
        for (key, (id, is_there)) in &self.names {
            match is_there {
                true => net.named.push((*key, id.clone())),
                false => net.unnamed.push((*key, id.clone())),
            }
        }
        net
    }
}
