//! Laws of lists.
