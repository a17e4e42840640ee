//! Extents: where a head begins and ends.
//!
//! Owns line ends, and the verdicts that need no more than the bytes so far: limits, bare CR and
//! LF, NUL, and a request line as soon as it is whole. Must never look beyond [`HEAD_BYTES_MAX`],
//! or twice at bytes already seen (but for the end of the request line, which is near).

use memchr::{memchr, memchr3_iter};

use super::limits::{HEAD_BYTES_MAX, TARGET_BYTES_MAX};
use super::{HeadError, line};

/// Most bytes of empty lines before a request line: two lines. RFC 9112, section 2.2 asks for at
/// least one, which old clients send after a body.
const LEADING_BYTES_MAX: usize = 4;

/// Most bytes of a request line up to its LF: the target, and ample room for method and version.
const LINE_BYTES_MAX: usize = TARGET_BYTES_MAX + 64;

/// The first byte of a TLS record that carries a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// Complete head, split into its parts.
pub(super) struct Extent<'a> {
    /// The request line without its CRLF.
    pub(super) line: &'a [u8],
    /// The field lines, and the blank line that ends them.
    pub(super) fields: &'a [u8],
    /// Bytes up to the end of the blank line.
    pub(super) consumed: usize,
}

/// Finds the end of the head in `input`, whose first `seen` bytes an earlier call has searched.
pub(super) fn find(input: &[u8], seen: usize) -> Result<Option<Extent<'_>>, HeadError> {
    let window = &input[..input.len().min(HEAD_BYTES_MAX)];
    let Some(start) = skip_empty_lines(window)? else {
        return Ok(None);
    };
    match window[start] {
        TLS_HANDSHAKE => return Err(HeadError::Tls),
        0 => return Err(HeadError::Nul),
        byte if !line::is_token(byte) => return Err(HeadError::RequestLine),
        _ => {}
    }

    // The last byte seen may be a CR whose LF had not arrived.
    let from = seen.min(window.len()).saturating_sub(1).max(start);
    let mut fields_start = memchr(b'\n', &window[start..from]).map(|at| start + at + 1);
    for hit in memchr3_iter(b'\r', b'\n', 0, &window[from..]) {
        let at = from + hit;
        if fields_start.is_none() && at - start > LINE_BYTES_MAX {
            return Err(HeadError::TargetTooLong);
        }
        match window[at] {
            0 => return Err(HeadError::Nul),
            b'\r' => match window.get(at + 1) {
                Some(b'\n') => {}
                Some(_) => return Err(HeadError::BareCarriageReturn),
                None => break,
            },
            _ if window[at - 1] != b'\r' => return Err(HeadError::BareLineFeed),
            _ => match fields_start {
                None => {
                    line::parse(&window[start..at - 1])?;
                    fields_start = Some(at + 1);
                }
                Some(fields) if window[at - 2] == b'\n' => {
                    return Ok(Some(Extent {
                        line: &window[start..fields - 2],
                        fields: &window[fields..=at],
                        consumed: at + 1,
                    }));
                }
                Some(_) => {}
            },
        }
    }

    if fields_start.is_none() && window.len() - start > LINE_BYTES_MAX + 1 {
        return Err(HeadError::TargetTooLong);
    }
    if window.len() == HEAD_BYTES_MAX {
        return Err(HeadError::TooLong);
    }
    Ok(None)
}

/// Returns the start of the request line, after empty lines that are ignored; `None` while it is
/// unknown.
fn skip_empty_lines(window: &[u8]) -> Result<Option<usize>, HeadError> {
    let mut at = 0;
    loop {
        match &window[at..] {
            [] => return Ok(None),
            [b'\r' | b'\n', ..] if at == LEADING_BYTES_MAX => return Err(HeadError::RequestLine),
            [b'\r', b'\n', ..] => at += 2,
            [b'\r'] => return Ok(None),
            [b'\r', ..] => return Err(HeadError::BareCarriageReturn),
            [b'\n', ..] => return Err(HeadError::BareLineFeed),
            _ => return Ok(Some(at)),
        }
    }
}
