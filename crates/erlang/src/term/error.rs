//! Limits of terms, and errors of the external term format.

/// Deepest nesting of tuples, lists and maps. Real data stays below a dozen levels; a proper list
/// of any length counts as one level.
pub const DEPTH_MAX: usize = 100;

/// Bytes of the largest integer, 2^32768. Conversion to digits takes quadratic time.
pub const BIG_BYTES_MAX: usize = 4096;

/// Longest atom in characters, as in every Erlang system.
pub const ATOM_CHARACTERS_MAX: usize = 255;

/// The reason why bytes are not accepted as a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TermError {
    /// A size is larger than the rest of the bytes.
    #[error("a term is longer than the bytes that arrived")]
    Truncated,
    /// Bytes follow the term.
    #[error("there are bytes after the term")]
    TrailingBytes,
    /// The first byte is not the version of the external term format.
    #[error("a term begins with the byte {0} instead of 131")]
    Version(u8),
    /// A tag is unknown, outdated or refused, like those of compressed terms and of references to
    /// an atom cache.
    #[error("a term has the unsupported tag {0}")]
    Tag(u8),
    /// Terms nest deeper than [`DEPTH_MAX`].
    #[error("a term nests deeper than {DEPTH_MAX}")]
    TooDeep,
    /// An atom has more than [`ATOM_CHARACTERS_MAX`] characters, or is not UTF-8.
    #[error("an atom is not UTF-8 or has more than {ATOM_CHARACTERS_MAX} characters")]
    Atom,
    /// An integer has more than [`BIG_BYTES_MAX`] bytes.
    #[error("an integer has more than {BIG_BYTES_MAX} bytes")]
    TooBig,
    /// A float is not a finite number.
    #[error("a float is not a finite number")]
    Float,
    /// The parts of a bit string, reference, function or export contradict each other.
    #[error("the parts of a term contradict each other")]
    Malformed,
}
