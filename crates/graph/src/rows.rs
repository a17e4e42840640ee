//! Rows: small state of other crates that is stored with the graph.
//!
//! The graph knows neither their names nor what they mean. It keeps them in its file, in the
//! transactions that have its own changes, and in each copy of it.

use std::collections::BTreeMap;

/// Bytes of a row that count as much as an edge where changes wait for the disk.
const BYTES_PER_EDGE: usize = 64;

/// Rows by name.
pub type Rows = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Changes of rows by name: the new value, or `None` for a row that goes. The last change of a row
/// counts.
pub type RowChanges = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// Returns what changes weigh where they wait for the disk, in edges.
pub(crate) fn weight(changes: &RowChanges) -> usize {
    let weights = changes.iter().map(|(name, value)| {
        let bytes = name.len() + value.as_ref().map_or(0, |value| value.len());
        1 + bytes / BYTES_PER_EDGE
    });
    weights.sum()
}
