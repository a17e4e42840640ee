//! Errors of decoding.

/// Reason why bytes are not an entry, a checkpoint or a message between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The format has a version that this program does not know.
    #[error("format version {found} is unknown; {NEWER}")]
    Version {
        /// Version found.
        found: u8,
    },
    /// A command has a kind that this program does not know.
    #[error("command {found} is unknown; {NEWER}")]
    Command {
        /// The kind.
        found: u8,
    },
    /// Shared state has a kind that this program does not know.
    #[error("shared state of kind {found} is unknown; {NEWER}")]
    Shared {
        /// The kind.
        found: u8,
    },
    /// The bytes end too early.
    #[error("the bytes end too early")]
    Truncated,
    /// Bytes follow the end.
    #[error("{bytes} bytes follow the end")]
    Trailing {
        /// Number of those bytes.
        bytes: usize,
    },
    /// A length or number is above its maximum.
    #[error("{what} is {found}, but may be {max} at most")]
    TooLong {
        /// Name of the part.
        what: &'static str,
        /// Length or number found.
        found: usize,
        /// Maximum.
        max: usize,
    },
    /// The part of this name has an invalid value.
    #[error("{0} is invalid")]
    Invalid(&'static str),
}

/// What to do about bytes that a newer version of the program may have written.
const NEWER: &str = "a newer version of Encke may have written it: update this node";
