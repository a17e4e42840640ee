//! Validation of a term, after which its sizes are true.
//!
//! Does not recurse and allocates nothing.

use super::error::{BIG_BYTES_MAX, DEPTH_MAX, TermError};
use super::names::Fun;
use super::reader::Reader;
use super::tag;
use super::view::{Term, view};

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
    let whole = *reader;
    let tag = reader.u8()?;
    let left = match tag {
        tag::SMALL_TUPLE => reader.u8()?.into(),
        tag::LARGE_TUPLE => reader.size()?,
        // The elements, and the tail.
        tag::LIST => reader.size()?.checked_add(1).ok_or(TermError::Truncated)?,
        tag::MAP => reader.size()?.checked_mul(2).ok_or(TermError::Truncated)?,
        tag::NEW_FUN => return fun(reader),
        tag::BIT_BINARY => bits(reader)?,
        tag::LARGE_BIG => match reader.size()? {
            size if size <= BIG_BYTES_MAX => skip(reader, 1 + size)?,
            _ => return Err(TermError::TooBig),
        },
        tag::EXPORT => {
            reader.atom()?;
            reader.atom()?;
            if reader.u8()? != tag::SMALL_INTEGER {
                return Err(TermError::Malformed);
            }
            skip(reader, 1)?
        }
        // A term without parts is validated by reading it.
        _ => {
            *reader = whole;
            match view(reader)? {
                Term::Float(float) if !float.is_finite() => return Err(TermError::Float),
                _ => 0,
            }
        }
    };
    Ok(Open {
        left,
        ends_with_left: None,
    })
}

fn skip(reader: &mut Reader<'_>, count: usize) -> Result<usize, TermError> {
    reader.take(count).map(|_| 0)
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
