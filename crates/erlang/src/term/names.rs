//! Identifiers that Erlang nodes create: pids, ports, references, functions.

use super::atom::Atom;
use super::error::TermError;
use super::reader::Reader;
use super::tag;
use super::view::Elements;

/// Words of the longest reference.
const REFERENCE_WORDS_MAX: u16 = 5;

/// The identifier of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pid<'a> {
    /// The node's name.
    pub node: Atom<'a>,
    /// The process's number on its node.
    pub id: u32,
    /// The upper part of the number.
    pub serial: u32,
    /// The creation, which identifies the run of the node.
    pub creation: u32,
}

/// The identifier of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port<'a> {
    /// The node's name.
    pub node: Atom<'a>,
    /// The port's number on its node.
    pub id: u64,
    /// The creation of the node.
    pub creation: u32,
}

/// A reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The node's name.
    pub node: Atom<'a>,
    /// The creation of the node.
    pub creation: u32,
    /// One to five big-endian words.
    pub words: &'a [u8],
}

/// A function value.
#[derive(Debug, Clone, Copy)]
pub struct Fun<'a> {
    /// The module that defines it.
    pub module: Atom<'a>,
    /// The number of its arguments.
    pub arity: u8,
    /// A digest of the module.
    pub unique: &'a [u8],
    /// Its index in the module.
    pub index: u32,
    /// Old index, old digest, the process that created it, then the values of its environment.
    pub parts: Elements<'a>,
}

impl<'a> Pid<'a> {
    pub(super) fn read(tag: u8, reader: &mut Reader<'a>) -> Result<Self, TermError> {
        Ok(Self {
            node: reader.atom()?,
            id: reader.u32()?,
            serial: reader.u32()?,
            creation: match tag {
                tag::PID => reader.u8()?.into(),
                _ => reader.u32()?,
            },
        })
    }
}

impl<'a> Port<'a> {
    pub(super) fn read(tag: u8, reader: &mut Reader<'a>) -> Result<Self, TermError> {
        Ok(Self {
            node: reader.atom()?,
            id: match tag {
                tag::V4_PORT => reader.u64()?,
                _ => reader.u32()?.into(),
            },
            creation: match tag {
                tag::PORT => reader.u8()?.into(),
                _ => reader.u32()?,
            },
        })
    }
}

impl<'a> Reference<'a> {
    pub(super) fn read(tag: u8, reader: &mut Reader<'a>) -> Result<Self, TermError> {
        let count = reader.u16()?;
        if count == 0 || count > REFERENCE_WORDS_MAX {
            return Err(TermError::Malformed);
        }
        Ok(Self {
            node: reader.atom()?,
            creation: match tag {
                tag::NEW_REFERENCE => reader.u8()?.into(),
                _ => reader.u32()?,
            },
            words: reader.take(4 * usize::from(count))?,
        })
    }

    /// Iterates over the words as numbers, in the order of the encoding.
    pub fn numbers(self) -> impl DoubleEndedIterator<Item = u32> + 'a {
        let (words, _) = self.words.as_chunks();
        words.iter().map(|word| u32::from_be_bytes(*word))
    }
}

impl<'a> Fun<'a> {
    /// Reads up to the parts and returns their number. They end `size` bytes after the tag.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<(Self, usize), TermError> {
        let size = reader.size()?;
        // The size counts itself.
        let mut inside = Reader(reader.take(size.checked_sub(4).ok_or(TermError::Malformed)?)?);
        let arity = inside.u8()?;
        let unique = inside.take(16)?;
        let index = inside.u32()?;
        let free = inside.size()?;
        let module = inside.atom()?;
        let parts = free.checked_add(3).ok_or(TermError::Malformed)?;
        let fun = Self {
            module,
            arity,
            unique,
            index,
            parts: Elements::new(parts, inside.0),
        };
        Ok((fun, size))
    }
}
