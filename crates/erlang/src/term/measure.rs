//! Validation of a term. Only this code handles sizes that may be false.
//!
//! Does not recurse and allocates nothing.

use super::error::{BIG_BYTES_MAX, DEPTH_MAX, TermError};
use super::names::{Fun, Pid, Port, Reference};
use super::reader::Reader;
use super::tag;

/// A tuple, list, map or function whose parts are being validated.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Number of parts that are still to come.
    left: usize,
    /// For a function: number of bytes that must be left after its parts.
    ends_with_left: Option<usize>,
}

/// Returns the number of bytes of the term at the beginning of `bytes`.
pub(super) fn measure(bytes: &[u8]) -> Result<usize, TermError> {
    let mut reader = Reader(bytes);
    let mut opened = [Open::default(); DEPTH_MAX];
    let mut depth = 0;
    loop {
        let inner = one(&mut reader)?;
        if inner.left > 0 || inner.ends_with_left.is_some() {
            // Every part has at least one byte.
            if inner.left > reader.0.len() {
                return Err(TermError::Truncated);
            }
            *opened.get_mut(depth).ok_or(TermError::TooDeep)? = inner;
            depth += 1;
            continue;
        }
        loop {
            let Some(open) = depth.checked_sub(1).map(|top| &mut opened[top]) else {
                return Ok(bytes.len() - reader.0.len());
            };
            open.left -= 1;
            if open.left > 0 {
                break;
            }
            if open
                .ends_with_left
                .is_some_and(|left| left != reader.0.len())
            {
                return Err(TermError::Malformed);
            }
            depth -= 1;
        }
    }
}

/// Reads a term without its parts, and returns which parts follow.
fn one(reader: &mut Reader<'_>) -> Result<Open, TermError> {
    let tag = reader.u8()?;
    let left = match tag {
        tag::SMALL_INTEGER => skip(reader, 1)?,
        tag::INTEGER => skip(reader, 4)?,
        tag::NEW_FLOAT => finite(f64::from_bits(reader.u64()?))?,
        tag::FLOAT => finite(float_of_text(reader.take(31)?).ok_or(TermError::Float)?)?,
        tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8 | tag::SMALL_ATOM_UTF8 => {
            reader.atom_of(tag)?;
            0
        }
        tag::NIL => 0,
        tag::STRING => {
            let size = reader.u16()?;
            skip(reader, size.into())?
        }
        tag::BINARY => {
            let size = reader.size()?;
            skip(reader, size)?
        }
        tag::BIT_BINARY => bits(reader)?,
        tag::SMALL_BIG => {
            let size = reader.u8()?;
            skip(reader, 1 + usize::from(size))?
        }
        tag::LARGE_BIG => match reader.size()? {
            size if size <= BIG_BYTES_MAX => skip(reader, 1 + size)?,
            _ => return Err(TermError::TooBig),
        },
        tag::SMALL_TUPLE => reader.u8()?.into(),
        tag::LARGE_TUPLE => reader.size()?,
        // The elements, and the tail.
        tag::LIST => reader.size()?.checked_add(1).ok_or(TermError::Truncated)?,
        tag::MAP => reader.size()?.checked_mul(2).ok_or(TermError::Truncated)?,
        tag::PID | tag::NEW_PID => {
            Pid::read(tag, reader)?;
            0
        }
        tag::PORT | tag::NEW_PORT | tag::V4_PORT => {
            Port::read(tag, reader)?;
            0
        }
        tag::NEW_REFERENCE | tag::NEWER_REFERENCE => {
            Reference::read(tag, reader)?;
            0
        }
        tag::EXPORT => {
            reader.atom()?;
            reader.atom()?;
            if reader.u8()? != tag::SMALL_INTEGER {
                return Err(TermError::Malformed);
            }
            skip(reader, 1)?
        }
        tag::NEW_FUN => return fun(reader),
        _ => return Err(TermError::Tag(tag)),
    };
    Ok(Open {
        left,
        ends_with_left: None,
    })
}

fn skip(reader: &mut Reader<'_>, count: usize) -> Result<usize, TermError> {
    reader.take(count).map(|_| 0)
}

fn finite(float: f64) -> Result<usize, TermError> {
    if float.is_finite() {
        Ok(0)
    } else {
        Err(TermError::Float)
    }
}

/// Parses a float in the format of releases before 2009: decimal digits, padded with NUL.
pub(super) fn float_of_text(bytes: &[u8]) -> Option<f64> {
    let end = bytes.iter().position(|&byte| byte == 0);
    let digits = str::from_utf8(&bytes[..end.unwrap_or(bytes.len())]).ok()?;
    digits.parse().ok()
}

fn bits(reader: &mut Reader<'_>) -> Result<usize, TermError> {
    let size = reader.size()?;
    let in_last = reader.u8()?;
    if size == 0 || !(1..=8).contains(&in_last) {
        return Err(TermError::Malformed);
    }
    skip(reader, size)
}

/// Reads a function up to its parts, which must begin with two integers and a pid.
fn fun(reader: &mut Reader<'_>) -> Result<Open, TermError> {
    let before = *reader;
    let (fun, size) = Fun::read(reader)?;
    let mut parts = Reader(fun.parts.bytes());
    for _ in 0..2 {
        match parts.u8()? {
            tag::SMALL_INTEGER => skip(&mut parts, 1)?,
            tag::INTEGER => skip(&mut parts, 4)?,
            _ => return Err(TermError::Malformed),
        };
    }
    if !matches!(parts.u8()?, tag::PID | tag::NEW_PID) {
        return Err(TermError::Malformed);
    }
    let ends_with_left = before.0.len() - size;
    let left = fun.parts.len();
    // The parts are validated like any others, so reading continues where they begin.
    reader.0 = &before.0[before.0.len() - ends_with_left - fun.parts.bytes().len()..];
    Ok(Open {
        left,
        ends_with_left: Some(ends_with_left),
    })
}
