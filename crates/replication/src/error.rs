//! Errors of decoding.

use std::error::Error;
use std::fmt;

/// Reason why bytes are not an entry, a checkpoint or a message between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The format has a version that this program does not know.
    Version {
        /// Version found.
        found: u8,
    },
    /// A command has a kind that this program does not know.
    Command {
        /// The kind.
        found: u8,
    },
    /// Shared state has a kind that this program does not know.
    Shared {
        /// The kind.
        found: u8,
    },
    /// The bytes end too early.
    Truncated,
    /// Bytes follow the end.
    Trailing {
        /// Number of those bytes.
        bytes: usize,
    },
    /// A length or number is above its maximum.
    TooLong {
        /// Name of the part.
        what: &'static str,
        /// Length or number found.
        found: usize,
        /// Maximum.
        max: usize,
    },
    /// A value is invalid.
    Invalid {
        /// Name of the part.
        what: &'static str,
    },
}

impl DecodeError {
    /// Returns whether a newer version of the program may have written the bytes, so that an update
    /// may help.
    pub const fn is_newer(&self) -> bool {
        matches!(
            self,
            Self::Version { .. } | Self::Command { .. } | Self::Shared { .. }
        )
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let newer = "a newer version of Encke may have written it: update this node";
        match self {
            Self::Version { found } => write!(f, "format version {found} is unknown; {newer}"),
            Self::Command { found } => write!(f, "command {found} is unknown; {newer}"),
            Self::Shared { found } => {
                write!(f, "shared state of kind {found} is unknown; {newer}")
            }
            Self::Truncated => f.write_str("the bytes end too early"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes follow the end"),
            Self::TooLong { what, found, max } => {
                write!(f, "{what} is {found}, but may be {max} at most")
            }
            Self::Invalid { what } => write!(f, "{what} is invalid"),
        }
    }
}

impl Error for DecodeError {}
