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
pub use error::{ATOM_CHARACTERS_MAX, BIG_BYTES_MAX, DEPTH_MAX, TermError};
pub use names::{Fun, Pid, Port, Reference};
pub(crate) use reader::Reader;
pub use view::{Elements, List, Raw, Term};
