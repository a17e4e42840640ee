//! The request line: method, target and version (RFC 9112, section 3).
//!
//! Owns the forms of a target. Must never decode a target or compare hosts: `Host` is not known
//! here.

use super::HeadError;
use super::limits::TARGET_BYTES_MAX;

/// Method of a request (RFC 9110, section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// OPTIONS.
    Options,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
    /// CONNECT. A 2xx answer would turn the connection into a tunnel (RFC 9110, section 9.3.6), so
    /// nothing here answers one.
    Connect,
    /// A well-formed method that nothing here implements: 501 (RFC 9110, section 15.6.2).
    Other,
}

/// Version of a request, as far as it matters to the answer (RFC 9112, section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a later 1.x (RFC 9110, section 2.5).
    Http11,
}

/// Request line, split into its parts.
pub(super) struct RequestLine<'a> {
    pub(super) method: Method,
    pub(super) target: &'a str,
    pub(super) form: Form<'a>,
    pub(super) version: Version,
}

/// Form of a target (RFC 9112, section 3.2).
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    /// A path, and perhaps a query.
    Origin,
    /// A whole URI; `resource` is what follows the authority.
    Absolute {
        authority: &'a str,
        resource: &'a str,
    },
    /// `*` with OPTIONS, or anything with CONNECT or a method that is not implemented.
    Other,
}

/// Parses a request line without its CRLF.
pub(super) fn parse(line: &[u8]) -> Result<RequestLine<'_>, HeadError> {
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(HeadError::RequestLine);
    };
    let method = parse_method(method)?;
    let version = parse_version(version).map_err(|error| match line {
        b"PRI * HTTP/2.0" => HeadError::Http2,
        _ => error,
    })?;
    if target.len() > TARGET_BYTES_MAX {
        return Err(HeadError::TargetTooLong);
    }
    if target.is_empty()
        || target
            .iter()
            .any(|&byte| byte <= b' ' || byte == 0x7f || byte == b'#')
    {
        return Err(HeadError::Target);
    }
    // Raw UTF-8 is not of RFC 3986, but it is what `curl` sends for a name typed with an accent.
    let target = str::from_utf8(target).map_err(|_| HeadError::Target)?;
    Ok(RequestLine {
        method,
        target,
        form: form(method, target)?,
        version,
    })
}

fn form(method: Method, target: &str) -> Result<Form<'_>, HeadError> {
    if target.starts_with('/') {
        return Ok(Form::Origin);
    }
    let after_scheme = strip_scheme(target, "http://").or_else(|| strip_scheme(target, "https://"));
    if let Some(rest) = after_scheme {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, resource) = rest.split_at(end);
        return Ok(Form::Absolute {
            authority,
            resource,
        });
    }
    match method {
        Method::Connect | Method::Other => Ok(Form::Other),
        Method::Options if target == "*" => Ok(Form::Other),
        _ => Err(HeadError::Target),
    }
}

fn strip_scheme<'a>(target: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn parse_method(method: &[u8]) -> Result<Method, HeadError> {
    match method {
        b"GET" => Ok(Method::Get),
        b"HEAD" => Ok(Method::Head),
        b"OPTIONS" => Ok(Method::Options),
        b"POST" => Ok(Method::Post),
        b"PUT" => Ok(Method::Put),
        b"DELETE" => Ok(Method::Delete),
        b"CONNECT" => Ok(Method::Connect),
        [] => Err(HeadError::RequestLine),
        token if token.iter().all(|&byte| is_token(byte)) => Ok(Method::Other),
        _ => Err(HeadError::RequestLine),
    }
}

fn parse_version(version: &[u8]) -> Result<Version, HeadError> {
    match version {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Err(HeadError::Version),
        _ => Err(HeadError::RequestLine),
    }
}

/// Returns whether a token may have this byte (RFC 9110, section 5.6.2).
pub(super) const fn is_token(byte: u8) -> bool {
    matches!(byte,
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z'
        | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~')
}
