//! Laws of the dictionary.
