//! Input that is kept for connections: what has not arrived whole, or waits to be handled.

use std::collections::HashMap;

/// Memory of kept input beyond its bytes: its place in the table, and the allocator's.
const ENTRY_BYTES: usize = 64;

/// Incomplete PROXY headers, ClientHellos and heads, by slot, and requests that wait.
#[derive(Debug, Default)]
pub(super) struct KeptInput {
    pub(super) slots: HashMap<u32, Vec<u8>>,
    bytes: usize,
}

impl KeptInput {
    /// Keeps the input of a slot, in the place of any earlier.
    pub(super) fn insert(&mut self, slot: u32, input: Vec<u8>) {
        self.bytes += cost(&input);
        if let Some(earlier) = self.slots.insert(slot, input) {
            self.bytes -= cost(&earlier);
        }
    }

    /// Appends to the input of a slot. Returns how much there is.
    pub(super) fn append(&mut self, slot: u32, input: &[u8]) -> usize {
        let mut kept = self.remove(slot).unwrap_or_default();
        kept.extend_from_slice(input);
        let length = kept.len();
        self.insert(slot, kept);
        length
    }

    /// Takes the input of a slot.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Vec<u8>> {
        let input = self.slots.remove(&slot)?;
        debug_assert!(cost(&input) <= self.bytes, "input that was not counted");
        self.bytes -= cost(&input);
        if self.slots.is_empty() && self.slots.capacity() > 64 {
            self.slots = HashMap::new();
        }
        Some(input)
    }

    /// Returns the memory of the input of a slot.
    pub(super) fn bytes_of(&self, slot: u32) -> usize {
        self.slots.get(&slot).map_or(0, cost)
    }

    /// Returns the memory of all input.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

pub(super) const fn cost(input: &Vec<u8>) -> usize {
    ENTRY_BYTES + input.capacity()
}
