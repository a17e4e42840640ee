//! Request heads: the request line and the fields (RFC 9112, sections 2 to 6).
//!
//! Owns the limits of a head and every rule that keeps two readers of one connection from
//! disagreeing about where a request ends. Must never touch a body or answer a request: a refusal
//! is a [`HeadError`](crate::head::HeadError), whose status and reason the caller sends before it
//! closes.
//!
//! A head is judged from left to right: bytes, then the request line, then (once it is complete)
//! its fields. So the result does not depend on how the bytes were split, and comes as early as the
//! bytes allow.

// Limits of a head.
mod limits;
// The verdicts that refuse a head.
mod error;
// Bytes to a complete head, resumable.
mod extent;
// The request line.
mod line;
// The fields that this server understands.
mod fields;
// Look-up of any other field.
mod lines;

pub use error::HeadError;
pub use fields::Body;
pub use limits::{FIELDS_MAX, HEAD_BYTES_MAX, TARGET_BYTES_MAX};
pub use line::{Method, Version};
pub use lines::FieldLines;

use fields::Fields;
use line::{Form, RequestLine};

/// Request head, borrowed from the bytes that it was parsed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The version.
    pub version: Version,
    /// The path, still percent-encoded. It begins with a slash, except for `*` (OPTIONS only) and
    /// for the target of [`Method::Connect`] and [`Method::Other`].
    pub path: &'a str,
    /// What follows the first question mark, still encoded.
    pub query: Option<&'a str>,
    /// The `Host` field (RFC 9112, section 3.2); always there on HTTP/1.1.
    pub host: Option<&'a str>,
    /// The `Origin` field.
    pub origin: Option<&'a str>,
    /// Whether the request has a field that proxies add: `Forwarded`, `X-Forwarded-…` or `Via`.
    pub forwarded: bool,
    /// The `Last-Event-ID` field (WHATWG HTML, section 9.2.4).
    pub last_event_id: Option<&'a str>,
    /// Whether the client sends its body only after a 100 (Continue) or the answer (RFC 9110,
    /// section 10.1.1).
    pub expects_continue: bool,
    /// Whether the client keeps the connection open (RFC 9112, section 9.3).
    pub keep_alive: bool,
    /// What follows the head.
    pub body: Body,
    /// Bytes of the head, blank line included.
    pub consumed: usize,
    /// The lines of all fields, for [`values`](Self::values).
    pub lines: FieldLines<'a>,
}

impl<'a> Request<'a> {
    /// Looks up a field that this parser does not read: returns the values of all lines of that
    /// name, in their order, without surrounding white space. Names are compared without regard to
    /// case (RFC 9110, section 5.1). Each call reads the lines of the head again.
    ///
    /// A value that is not UTF-8 yields [`HeadError::FieldValue`] in its place, so that no caller
    /// takes a repeated field for a single one.
    ///
    /// ```
    /// let input = b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a.b.c\r\n\r\n";
    /// let request = wire::head::parse(input).unwrap().expect("a complete head");
    /// let values: Vec<_> = request.values("authorization").collect();
    /// assert_eq!(values, [Ok("Bearer a.b.c")]);
    /// ```
    pub fn values(&self, name: &str) -> impl Iterator<Item = Result<&'a str, HeadError>> {
        self.lines.values(name)
    }
}

/// Parses the head at the start of `input`. `Ok(None)` asks for more bytes.
///
/// # Errors
///
/// A [`HeadError`] as soon as the bytes so far break a rule, also before the head is complete.
/// Where the next request begins is unknown then, so the connection must be closed after the
/// answer.
///
/// ```
/// use wire::head::{Body, HeadError, Method, parse};
///
/// let input = b"GET /events/42?id=news HTTP/1.1\r\nHost: localhost\r\n\r\nnext";
/// assert_eq!(parse(&input[..20]), Ok(None), "more bytes are needed");
///
/// let request = parse(input).unwrap().expect("a complete head");
/// assert_eq!((request.method, request.path), (Method::Get, "/events/42"));
/// assert_eq!((request.query, request.body), (Some("id=news"), Body::None));
/// assert_eq!(&input[request.consumed..], b"next");
///
/// let error = parse(b"GET / HTTP/1.1\r\n\r\n").unwrap_err();
/// assert_eq!(error, HeadError::HostMissing);
/// assert_eq!(error.status().code(), 400);
/// ```
pub fn parse(input: &[u8]) -> Result<Option<Request<'_>>, HeadError> {
    parse_from(input, 0)
}

/// Parses like [`parse`], but skips the first `seen` bytes, for which an earlier call returned
/// `Ok(None)`. So a head that arrives byte by byte costs linear time.
///
/// # Errors
///
/// Those of [`parse`].
pub fn parse_from(input: &[u8], seen: usize) -> Result<Option<Request<'_>>, HeadError> {
    let Some(extent) = extent::find(input, seen)? else {
        return Ok(None);
    };
    let RequestLine {
        method,
        target,
        form,
        version,
    } = line::parse(extent.line)?;
    let fields = Fields::parse(extent.fields)?;
    if version == Version::Http11 && fields.host.is_none() {
        return Err(HeadError::HostMissing);
    }
    if version == Version::Http10 && fields.has_transfer_encoding {
        return Err(HeadError::TransferEncodingOnHttp10);
    }
    let resource = match form {
        Form::Origin | Form::Other => target,
        // RFC 9112, section 3.2.2 lets the target win; two readers may then see two hosts.
        Form::Absolute {
            authority,
            resource,
        } => match fields.host {
            Some(host) if host.eq_ignore_ascii_case(authority) => resource,
            _ => return Err(HeadError::OtherHost),
        },
    };
    let (path, query) = match (form, resource.split_once('?')) {
        (Form::Other, _) | (_, None) => (resource, None),
        (_, Some((path, query))) => (path, Some(query)),
    };
    Ok(Some(Request {
        method,
        version,
        path: if path.is_empty() { "/" } else { path },
        query,
        host: fields.host,
        origin: fields.origin,
        forwarded: fields.forwarded,
        last_event_id: fields.last_event_id,
        expects_continue: fields.expects_continue && version == Version::Http11,
        keep_alive: !fields.close && (version == Version::Http11 || fields.keep_alive),
        body: fields.body,
        consumed: extent.consumed,
        lines: FieldLines::new(extent.fields),
    }))
}
