//! Erlang terms in the external term format, read in place.
//!
//! [`Raw::parse`](crate::term::Raw::parse) validates the bytes of a peer once. After that, every
//! size in them is correct and no nesting is deeper than [`DEPTH_MAX`](crate::term::DEPTH_MAX), so
//! reading cannot fail. Nothing is copied and there is no atom table, so new atoms and false sizes
//! cost no memory.

pub(crate) mod tag;
mod error;
mod reader;
mod measure;
mod atom;
mod big;
mod names;
mod view;
pub mod text;
pub mod write;

pub use atom::Atom;
pub use big::Big;
pub use error::TermError;
pub use names::{Fun, Pid, Port, Reference};
pub use view::{Elements, List, Raw, Term};

/// Deepest nesting of tuples, lists and maps. Real data stays below a dozen levels; a proper list
/// of any length counts as one level.
pub const DEPTH_MAX: usize = 100;

/// Bytes of the largest integer, 2^32768. Conversion to digits takes quadratic time.
pub const BIG_BYTES_MAX: usize = 4096;

/// Longest atom in characters, as in every Erlang system.
pub const ATOM_CHARACTERS_MAX: usize = 255;
