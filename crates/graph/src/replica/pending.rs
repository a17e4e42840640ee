//! Changes that are in memory but not on disk.

use std::collections::BTreeMap;

use crate::batch::{EdgeChange, Net};
use crate::id::Id;
use crate::key::Key;
use crate::places::LogPlaces;
use crate::rows::{self, RowChanges};

/// Changes of several batches, in order, and their position in the log.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    edges: Vec<EdgeChange>,
    /// Latest change of the name of each interned key: an id, and whether the key still has it.
    /// Keys that were added and removed again are included, as a failed commit may have reached the
    /// file.
    names: BTreeMap<Key, (Id, bool)>,
    rows: RowChanges,
    rows_weight: usize,
    /// Position in the log after these changes, once they have one, and earlier ones to keep.
    pub(super) places: Option<LogPlaces>,
}

impl Pending {
    /// Returns the number of changes of edges, including repeated ones, plus the weight of the rows
    /// in edges.
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
        match (&mut self.places, later.places) {
            (Some(places), Some(later)) => {
                places.earlier.extend(later.earlier);
                places.last = later.last;
            }
            (_, None) => {}
            (places, later) => *places = later,
        }
    }

    /// Returns the net effect of all changes.
    pub(crate) fn net(&self) -> Net {
        let mut last: Vec<EdgeChange> = self.edges.iter().rev().copied().collect();
        // The sort is stable, so the first of equals is the latest.
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
