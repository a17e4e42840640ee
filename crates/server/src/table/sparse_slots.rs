//! Values that few connections have, by slot.

use std::iter;

use crate::limits::Limits;

/// Values by slot. Neighbouring slots share a shelf, which is there only while one of them has a
/// value.
#[derive(Debug)]
pub(crate) struct SparseSlots<T> {
    shelves: Vec<Shelf<T>>,
    /// Binary digits of the slots of a shelf.
    shelf_bits: u32,
    /// Shelves that are there.
    count: usize,
}

#[derive(Debug)]
struct Shelf<T> {
    values: Box<[Option<T>]>,
    taken: u32,
}

impl<T> SparseSlots<T> {
    pub(crate) const fn new(limits: &Limits) -> Self {
        Self {
            shelves: Vec::new(),
            shelf_bits: limits.sparse_shelf_bits,
            count: 0,
        }
    }

    /// Returns the shelf of a slot, and its place there.
    const fn place(&self, slot: u32) -> (usize, usize) {
        let place = slot & ((1 << self.shelf_bits) - 1);
        ((slot >> self.shelf_bits) as usize, place as usize)
    }

    /// Returns the value of a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let (shelf, place) = self.place(slot);
        self.shelves.get(shelf)?.values.get(place)?.as_ref()
    }

    /// Returns the value of a slot.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let (shelf, place) = self.place(slot);
        self.shelves.get_mut(shelf)?.values.get_mut(place)?.as_mut()
    }

    /// Sets the value of a slot.
    pub(crate) fn insert(&mut self, slot: u32, value: T) {
        let (shelf, place) = self.place(slot);
        if self.shelves.len() <= shelf {
            self.shelves.resize_with(shelf + 1, Shelf::default);
        }
        let shelf = &mut self.shelves[shelf];
        if shelf.values.is_empty() {
            self.count += 1;
            let empty = iter::repeat_with(|| None);
            shelf.values = empty.take(1 << self.shelf_bits).collect();
        }
        if shelf.values[place].replace(value).is_none() {
            shelf.taken += 1;
        }
    }

    /// Drops the value of a slot where it is: what it overwrites then, like keys, has no copy.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (shelf, place) = self.place(slot);
        let Some(shelf) = self.shelves.get_mut(shelf) else {
            return;
        };
        if let Some(value) = shelf.values.get_mut(place)
            && value.is_some()
        {
            *value = None;
            shelf.taken -= 1;
            if shelf.taken == 0 {
                shelf.values = Box::default();
                self.count -= 1;
            }
        }
    }

    /// Returns the bytes of the shelves that are there.
    pub(crate) const fn memory_bytes(&self) -> usize {
        (self.count << self.shelf_bits) * size_of::<Option<T>>()
    }

    /// Returns the bytes of the shelves that are there, counted one by one.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn count_memory_bytes(&self) -> usize {
        let values = self.shelves.iter().map(|shelf| shelf.values.len());
        values.sum::<usize>() * size_of::<Option<T>>()
    }

    /// Returns whether no slot has a value, and no memory is kept for any.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a number above all slots that have a value.
    pub(crate) const fn slots(&self) -> u32 {
        (self.shelves.len() as u32) << self.shelf_bits
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            values: Box::default(),
            taken: 0,
        }
    }
}
