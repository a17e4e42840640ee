//! Reasons why bytes are not what they should be.

use std::error::Error;
use std::fmt;

/// Reason why bytes are not an entry, a checkpoint or a message between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The format has a version that this program does not know.
    Version {
        /// The version.
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
        /// Their number.
        bytes: usize,
    },
    /// Something is longer, or there is more of it, than there may be.
    TooLong {
        /// The thing.
        what: &'static str,
        /// Its length or number.
        found: usize,
        /// The largest that there may be.
        max: usize,
    },
    /// A value that must not be there.
    Invalid {
        /// The thing.
        what: &'static str,
    },
}

impl DecodeError {
    /// Returns whether a newer program may have written the bytes, so that an update is the remedy.
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
                write!(f, "{what} is {found}, and may be {max} at most")
            }
            Self::Invalid { what } => write!(f, "{what} is invalid"),
        }
    }
}

impl Error for DecodeError {}
