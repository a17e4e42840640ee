//! Limits of terms.

/// Deepest nesting of tuples, lists and maps. Real data stays below a dozen levels; a proper list
/// of any length counts as one level.
pub const DEPTH_MAX: usize = 100;

/// Bytes of the largest integer, 2^32768. Conversion to digits takes quadratic time.
pub const BIG_BYTES_MAX: usize = 4096;

/// Longest atom in characters, as in every Erlang system.
pub const ATOM_CHARACTERS_MAX: usize = 255;
