//! Rows: small values of other crates that are stored with the graph.
//!
//! The graph does not interpret their names or values. It stores them in its file, in the same
//! transactions as its own changes, and in each copy of the file.

use std::collections::BTreeMap;

/// Bytes of a row that weigh as much as one edge among the changes that wait for the disk.
const BYTES_PER_EDGE: usize = 64;

/// Rows by name.
pub type Rows = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Changes of rows by name: the new value, or `None` to remove the row. The last change of a row
/// wins.
pub type RowChanges = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// Returns the weight of changes that wait for the disk, in edges.
pub(crate) fn weight(changes: &RowChanges) -> usize {
    let weights = changes.iter().map(|(name, value)| {
        let bytes = name.len() + value.as_ref().map_or(0, |value| value.len());
        1 + bytes / BYTES_PER_EDGE
    });
    weights.sum()
}
