//! Erlang terms in the external term format, read where they lie.
//!
//! Bytes from a peer are measured once, by [`Raw::parse`]; from then on every size in them is true and no
//! nesting is deeper than [`DEPTH_MAX`], so looking at them cannot fail. Nothing is copied and no table of
//! atoms is kept: a peer that invents atoms or lies about sizes costs no memory here.

mod tag;
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

/// How deep tuples, lists and maps may nest. Data that people send each other stays below a dozen; a
/// proper list of any length counts once.
pub const DEPTH_MAX: usize = 100;

/// Bytes of the largest integer: 2^32768. Turning it into digits takes quadratic time.
pub const BIG_BYTES_MAX: usize = 4096;

/// Characters of an atom, as in every Erlang system.
pub const ATOM_CHARACTERS_MAX: usize = 255;
