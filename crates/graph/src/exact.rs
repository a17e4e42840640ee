//! Operations on boxed slices, which have no spare capacity.
//!
//! A graph has millions of short lists, for which the spare capacity of `Vec` would be larger than
//! the lists. The allocator rounds sizes up anyway, so most of these changes are in place.

/// Inserts `value` at `at`.
pub(crate) fn insert<T>(slice: &mut Box<[T]>, at: usize, value: T) {
    let mut vec = std::mem::take(slice).into_vec();
    vec.reserve_exact(1);
    vec.insert(at, value);
    *slice = vec.into_boxed_slice();
}

/// Removes and returns the element at `at`.
pub(crate) fn remove<T>(slice: &mut Box<[T]>, at: usize) -> T {
    let mut vec = std::mem::take(slice).into_vec();
    let value = vec.remove(at);
    *slice = vec.into_boxed_slice();
    value
}

/// Cuts off and returns everything from `at`.
pub(crate) fn split_off<T>(slice: &mut Box<[T]>, at: usize) -> Box<[T]> {
    let mut vec = std::mem::take(slice).into_vec();
    let tail = vec.drain(at..).collect();
    *slice = vec.into_boxed_slice();
    tail
}

/// Appends `tail`.
pub(crate) fn append<T: Copy>(slice: &mut Box<[T]>, tail: &[T]) {
    let mut vec = std::mem::take(slice).into_vec();
    vec.reserve_exact(tail.len());
    vec.extend_from_slice(tail);
    *slice = vec.into_boxed_slice();
}
