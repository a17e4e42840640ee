//! Looking at measured terms: what one is, and what it is made of.

use super::atom::Atom;
use super::big::Big;
use super::error::TermError;
use super::measure::{float_of_text, measure};
use super::names::{Fun, Pid, Port, Reference};
use super::reader::Reader;
use super::tag;

/// Why reading a measured term cannot fail.
const MEASURED: &str = "the term was measured when it was parsed";

/// The bytes of exactly one term, without the version byte. Borrowed from what a peer sent; every size
/// in it is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a [u8]);

/// What a term is.
#[derive(Debug, Clone, Copy)]
pub enum Term<'a> {
    /// An integer of 64 bits.
    Integer(i64),
    /// A larger one.
    Big(Big<'a>),
    /// A finite float.
    Float(f64),
    /// A name.
    Atom(Atom<'a>),
    /// A process.
    Pid(Pid<'a>),
    /// A port.
    Port(Port<'a>),
    /// A reference.
    Reference(Reference<'a>),
    /// Bytes.
    Binary(&'a [u8]),
    /// Bytes of which only the upper so many bits of the last count: 1 to 8.
    Bits(&'a [u8], u8),
    /// The empty list.
    Nil,
    /// A list of small integers: text in Latin-1, most often.
    String(&'a [u8]),
    /// A list with at least one element.
    List(List<'a>),
    /// A tuple.
    Tuple(Elements<'a>),
    /// A map: keys and values in turn.
    Map(Elements<'a>),
    /// `fun module:function/arity`.
    Export(Atom<'a>, Atom<'a>, u8),
    /// A function value.
    Fun(Fun<'a>),
}

/// Terms that follow each other.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a> {
    left: usize,
    bytes: &'a [u8],
}

/// A list's elements and what comes after them: `[]`, unless the list is improper.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    elements: Elements<'a>,
}

impl<'a> Raw<'a> {
    /// Measures the term that `bytes` begin with; what follows it is returned as well.
    ///
    /// # Errors
    ///
    /// See [`TermError`].
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), TermError> {
        let (term, rest) = bytes.split_at(measure(bytes)?);
        Ok((Self(term), rest))
    }

    /// Measures a term behind its version byte, with nothing after it.
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

    /// Measures a term behind its version byte; what follows it is returned as well.
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

    /// The term's bytes, without the version byte.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// What the term is.
    pub fn view(self) -> Term<'a> {
        view(&mut Reader(self.0)).expect(MEASURED)
    }

    /// The elements of a tuple of `N`.
    pub fn tuple<const N: usize>(self) -> Option<[Self; N]> {
        match self.view() {
            Term::Tuple(mut elements) if elements.len() == N => {
                Some([(); N].map(|()| elements.next().expect(MEASURED)))
            }
            _ => None,
        }
    }

    /// The atom, if it is one.
    pub fn atom(self) -> Option<Atom<'a>> {
        match self.view() {
            Term::Atom(atom) => Some(atom),
            _ => None,
        }
    }

    /// Whether it is the atom that `text` spells.
    pub fn is_atom(self, text: &str) -> bool {
        self.atom().is_some_and(|atom| atom.is(text))
    }

    /// The process, if it is one.
    pub fn pid(self) -> Option<Pid<'a>> {
        match self.view() {
            Term::Pid(pid) => Some(pid),
            _ => None,
        }
    }
}

fn view<'a>(reader: &mut Reader<'a>) -> Result<Term<'a>, TermError> {
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
            // Nobody writes it, but it is what its tail is.
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

impl<'a> Elements<'a> {
    pub(super) const fn new(left: usize, bytes: &'a [u8]) -> Self {
        Self { left, bytes }
    }

    /// No terms.
    pub(crate) const fn none() -> Self {
        Self::new(0, &[])
    }

    /// The bytes of those that are left, and whatever follows.
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
    /// The elements, without the tail.
    pub const fn elements(self) -> Elements<'a> {
        self.elements
    }

    /// What comes after the elements.
    pub fn tail(self) -> Raw<'a> {
        let mut elements = self.elements;
        elements.by_ref().for_each(drop);
        Raw::parse(elements.bytes).expect(MEASURED).0
    }

    /// Whether the list ends as lists should.
    pub fn is_proper(self) -> bool {
        matches!(self.tail().view(), Term::Nil)
    }
}
