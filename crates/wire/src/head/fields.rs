//! Header fields (RFC 9112, section 5).
//!
//! Owns the fields that this server reads, and the rules for the two that delimit a request.
//! `httparse` splits lines into names and values; this module decides whether they are valid. Must
//! never let a field count twice where readers differ about which one wins.

use crate::host::is_forwarding_field;

use super::HeadError;
use super::limits::FIELDS_MAX;

/// Body that follows the head (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Body {
    /// No body: no length was given, or it was zero.
    #[default]
    None,
    /// A body of this many bytes; never zero.
    Sized(u64),
    /// A chunked body.
    Chunked,
}

/// Fields that this server reads.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) host: Option<&'a str>,
    pub(super) origin: Option<&'a str>,
    /// Whether there is a field that proxies add.
    pub(super) forwarded: bool,
    pub(super) last_event_id: Option<&'a str>,
    /// `Expect` is `100-continue`.
    pub(super) expects_continue: bool,
    /// `Connection` has the option `close`.
    pub(super) close: bool,
    /// `Connection` has the option `keep-alive`.
    pub(super) keep_alive: bool,
    pub(super) has_transfer_encoding: bool,
    pub(super) body: Body,
}

impl<'a> Fields<'a> {
    /// Parses field lines up to and including the blank line that ends them.
    pub(super) fn parse(lines: &'a [u8]) -> Result<Self, HeadError> {
        let mut storage = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let headers = match httparse::parse_headers(lines, &mut storage) {
            Ok(httparse::Status::Complete((_, headers))) => headers,
            Ok(httparse::Status::Partial) => return Err(HeadError::FieldName),
            Err(error) => return Err(diagnose(error, lines)),
        };

        let mut fields = Self::default();
        let mut content_length = None;
        for header in headers {
            let name = header.name;
            // Lengths first: most fields are none of these.
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => {
                    once(
                        &mut fields.host,
                        host(header.value)?,
                        HeadError::HostRepeated,
                    )?;
                }
                6 if name.eq_ignore_ascii_case("origin") => {
                    once(
                        &mut fields.origin,
                        text(header.value)?,
                        HeadError::OriginRepeated,
                    )?;
                }
                6 if name.eq_ignore_ascii_case("expect") => {
                    let value = header.value.trim_ascii();
                    fields.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                }
                10 if name.eq_ignore_ascii_case("connection") => fields.connection(header.value),
                13 if name.eq_ignore_ascii_case("last-event-id") => {
                    fields.last_event_id = Some(text(header.value)?);
                }
                14 if name.eq_ignore_ascii_case("content-length") => {
                    let length = length(header.value)?;
                    once(
                        &mut content_length,
                        length,
                        HeadError::ContentLengthRepeated,
                    )?;
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    if fields.has_transfer_encoding {
                        return Err(HeadError::TransferEncodingInvalid);
                    }
                    fields.has_transfer_encoding = true;
                    chunked(header.value)?;
                }
                _ => fields.forwarded |= is_forwarding_field(name),
            }
        }
        fields.body = match (content_length, fields.has_transfer_encoding) {
            (Some(_), true) => return Err(HeadError::TwoLengths),
            (None, true) => Body::Chunked,
            (None | Some(0), false) => Body::None,
            (Some(length), false) => Body::Sized(length),
        };
        Ok(fields)
    }

    /// Reads a list of connection options (RFC 9110, section 7.6.1).
    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

fn once<T>(slot: &mut Option<T>, value: T, repeated: HeadError) -> Result<(), HeadError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(repeated),
    }
}

fn text(value: &[u8]) -> Result<&str, HeadError> {
    str::from_utf8(value.trim_ascii()).map_err(|_| HeadError::FieldValue)
}

/// `uri-host [ ":" port ]` (RFC 9110, section 7.2). An empty host is of the grammar.
fn host(value: &[u8]) -> Result<&str, HeadError> {
    let text = text(value).map_err(|_| HeadError::HostInvalid)?;
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']').ok_or(HeadError::HostInvalid)?;
            let of_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            if address.is_empty() || !address.bytes().all(of_address) {
                return Err(HeadError::HostInvalid);
            }
            (
                "",
                if after.is_empty() {
                    ""
                } else {
                    after.strip_prefix(':').ok_or(HeadError::HostInvalid)?
                },
            )
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
    if name.bytes().all(of_name) && port.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(text)
    } else {
        Err(HeadError::HostInvalid)
    }
}

/// Returns a `Content-Length` (RFC 9110, section 8.6). A list is a repetition, even of one number.
fn length(value: &[u8]) -> Result<u64, HeadError> {
    let value = value.trim_ascii();
    if value.contains(&b',') {
        return Err(HeadError::ContentLengthRepeated);
    }
    // Without a sign, which `str::parse` would accept.
    let digits = str::from_utf8(value).ok();
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|text| text.parse().ok());
    length.ok_or(HeadError::ContentLengthInvalid)
}

/// Accepts `chunked` and nothing else (RFC 9112, section 6.1).
fn chunked(value: &[u8]) -> Result<(), HeadError> {
    let mut codings = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    if !codings.next_back().is_some_and(is_chunked) {
        return Err(HeadError::TransferEncodingInvalid);
    }
    match codings.next() {
        None => Ok(()),
        Some(first) if first.is_empty() || is_chunked(first) || codings.any(is_chunked) => {
            Err(HeadError::TransferEncodingInvalid)
        }
        Some(_) => Err(HeadError::TransferEncodingUnknown),
    }
}

/// Returns the reason for an error of `httparse`. Runs for refused heads only.
fn diagnose(error: httparse::Error, lines: &[u8]) -> HeadError {
    let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::HeaderValue => HeadError::FieldValue,
        _ => lines
            .split(|&byte| byte == b'\n')
            .find_map(|line| {
                let name = line.split(|&byte| byte == b':').next()?;
                match (name.first(), name.last()) {
                    (Some(&first), _) if is_blank(first) => Some(HeadError::Folded),
                    (_, Some(&last)) if is_blank(last) => Some(HeadError::SpaceBeforeColon),
                    _ => None,
                }
            })
            .unwrap_or(HeadError::FieldName),
    }
}
