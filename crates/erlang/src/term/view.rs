//! Access to validated terms: their type and their parts.

use super::atom::Atom;
use super::big::Big;
use super::error::TermError;
use super::measure::measure;
use super::names::{Fun, Pid, Port, Reference};
use super::reader::Reader;
use super::tag;

/// The reason why reading a validated term cannot fail.
const MEASURED: &str = "the term was measured when it was parsed";

/// The bytes of exactly one validated term, without the version byte. Borrowed from the bytes of a
/// peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a [u8]);

/// The type and the content of a term.
#[derive(Debug, Clone, Copy)]
pub enum Term<'a> {
    /// An integer of 64 bits.
    Integer(i64),
    /// A larger integer.
    Big(Big<'a>),
    /// A finite float.
    Float(f64),
    /// An atom.
    Atom(Atom<'a>),
    /// A process.
    Pid(Pid<'a>),
    /// A port.
    Port(Port<'a>),
    /// A reference.
    Reference(Reference<'a>),
    /// Bytes.
    Binary(&'a [u8]),
    /// A bit string, and how many of the upper bits of its last byte count: 1 to 8.
    Bits(&'a [u8], u8),
    /// The empty list.
    Nil,
    /// A list of small integers, most often text in Latin-1.
    String(&'a [u8]),
    /// A list with at least one element.
    List(List<'a>),
    /// A tuple.
    Tuple(Elements<'a>),
    /// A map, as alternating keys and values.
    Map(Elements<'a>),
    /// `fun module:function/arity`.
    Export(Atom<'a>, Atom<'a>, u8),
    /// A function value.
    Fun(Fun<'a>),
}

/// A sequence of terms.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a> {
    left: usize,
    bytes: &'a [u8],
}

/// The elements and the tail of a list. The tail is `[]` unless the list is improper.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    elements: Elements<'a>,
}

impl<'a> Raw<'a> {
    /// Validates the term at the beginning of `bytes`. Also returns the rest.
    ///
    /// # Errors
    ///
    /// See [`TermError`].
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), TermError> {
        let (term, rest) = bytes.split_at(measure(bytes)?);
        Ok((Self(term), rest))
    }

    /// Validates a term after its version byte, with nothing after it.
    ///
    /// # Errors
    ///
    /// See [`TermError`].
    pub fn external(bytes: &'a [u8]) -> Result<Self, TermError> {
        match Self::versioned(bytes)? {
            (term, []) => Ok(term),
            _ => Err(TermError::TrailingBytes),
        }
    }

    /// Validates a term after its version byte. Also returns the rest.
    ///
    /// # Errors
    ///
    /// See [`TermError`].
    pub fn versioned(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), TermError> {
        match bytes.split_first() {
            Some((&tag::VERSION, term)) => Self::parse(term),
            Some((&version, _)) => Err(TermError::Version(version)),
            None => Err(TermError::Truncated),
        }
    }

    /// Returns the term's bytes, without the version byte.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the type and the content.
    pub fn view(self) -> Term<'a> {
        view(&mut Reader(self.0)).expect(MEASURED)
    }

    /// Returns the elements, if the term is a tuple of `N`.
    pub fn tuple<const N: usize>(self) -> Option<[Self; N]> {
        match self.view() {
            Term::Tuple(mut elements) if elements.len() == N => {
                Some([(); N].map(|()| elements.next().expect(MEASURED)))
            }
            _ => None,
        }
    }

    /// Returns the atom, if the term is one.
    pub fn atom(self) -> Option<Atom<'a>> {
        match self.view() {
            Term::Atom(atom) => Some(atom),
            _ => None,
        }
    }

    /// Whether the term is the atom with this text.
    pub fn is_atom(self, text: &str) -> bool {
        self.atom().is_some_and(|atom| atom.is(text))
    }

    /// Returns the elements, if the term is a proper list.
    pub(crate) fn elements(self) -> Option<Elements<'a>> {
        match self.view() {
            Term::Nil => Some(Elements::new(0, &[])),
            Term::List(list) if list.is_proper() => Some(list.elements()),
            _ => None,
        }
    }

    /// Returns the pid, if the term is one.
    pub fn pid(self) -> Option<Pid<'a>> {
        match self.view() {
            Term::Pid(pid) => Some(pid),
            _ => None,
        }
    }
}

/// Reads a term without its parts. The sizes of parts that follow may be false until they are
/// measured.
pub(super) fn view<'a>(reader: &mut Reader<'a>) -> Result<Term<'a>, TermError> {
    let tag = reader.u8()?;
    Ok(match tag {
        tag::SMALL_INTEGER => Term::Integer(reader.u8()?.into()),
        tag::INTEGER => Term::Integer(i64::from(reader.u32()?.cast_signed())),
        tag::NEW_FLOAT => Term::Float(f64::from_bits(reader.u64()?)),
        tag::FLOAT => Term::Float(float_of_text(reader.take(31)?).ok_or(TermError::Float)?),
        tag::NIL => Term::Nil,
        tag::STRING => {
            let size = reader.u16()?;
            match reader.take(size.into())? {
                [] => Term::Nil,
                bytes => Term::String(bytes),
            }
        }
        tag::BINARY => {
            let size = reader.size()?;
            Term::Binary(reader.take(size)?)
        }
        tag::BIT_BINARY => {
            let size = reader.size()?;
            let in_last = reader.u8()?;
            match (reader.take(size)?, in_last) {
                (bytes, 8) => Term::Binary(bytes),
                (bytes, in_last) => Term::Bits(bytes, in_last),
            }
        }
        tag::SMALL_BIG | tag::LARGE_BIG => {
            let size = match tag {
                tag::SMALL_BIG => reader.u8()?.into(),
                _ => reader.size()?,
            };
            let big = Big {
                negative: reader.u8()? != 0,
                magnitude: reader.take(size)?,
            };
            big.to_i64().map_or(Term::Big(big), Term::Integer)
        }
        tag::SMALL_TUPLE => Term::Tuple(Elements::new(reader.u8()?.into(), reader.0)),
        tag::LARGE_TUPLE => Term::Tuple(Elements::new(reader.size()?, reader.0)),
        tag::LIST => match reader.size()? {
            // No sender writes an empty list this way, but it equals its tail.
            0 => view(reader)?,
            count => Term::List(List {
                elements: Elements::new(count, reader.0),
            }),
        },
        tag::MAP => Term::Map(Elements::new(2 * reader.size()?, reader.0)),
        tag::PID | tag::NEW_PID => Term::Pid(Pid::read(tag, reader)?),
        tag::PORT | tag::NEW_PORT | tag::V4_PORT => Term::Port(Port::read(tag, reader)?),
        tag::NEW_REFERENCE | tag::NEWER_REFERENCE => Term::Reference(Reference::read(tag, reader)?),
        tag::EXPORT => {
            let (module, function) = (reader.atom()?, reader.atom()?);
            reader.u8()?;
            Term::Export(module, function, reader.u8()?)
        }
        tag::NEW_FUN => Term::Fun(Fun::read(reader)?.0),
        _ => Term::Atom(reader.atom_of(tag)?),
    })
}

/// Parses a float in the format of releases before 2009: decimal digits, padded with NUL.
fn float_of_text(bytes: &[u8]) -> Option<f64> {
    let end = bytes.iter().position(|&byte| byte == 0);
    let digits = str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]).ok()?;
    digits.parse().ok()
}

impl<'a> Elements<'a> {
    pub(super) const fn new(left: usize, bytes: &'a [u8]) -> Self {
        Self { left, bytes }
    }

    /// Returns the bytes of the remaining elements and everything after them.
    pub(super) const fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (term, rest) = Raw::parse(self.bytes).expect(MEASURED);
        self.bytes = rest;
        Some(term)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

impl<'a> List<'a> {
    /// Returns the elements, without the tail.
    pub const fn elements(self) -> Elements<'a> {
        self.elements
    }

    /// Returns the tail.
    pub fn tail(self) -> Raw<'a> {
        let mut elements = self.elements;
        elements.by_ref().for_each(drop);
        Raw::parse(elements.bytes).expect(MEASURED).0
    }

    /// Whether the tail is `[]`.
    pub fn is_proper(self) -> bool {
        matches!(self.tail().view(), Term::Nil)
    }
}
