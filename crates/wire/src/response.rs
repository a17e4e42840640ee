//! Responses: the heads of streams, and short complete answers.
//!
//! Owns the order and spelling of response fields. Must never read a clock (the date is an
//! argument) or decide whether an origin is allowed.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

use crate::head::Version;
use crate::status::Status;
use crate::transport::{Framing, Transport};
use crate::websocket::Accept;

/// Length of an IMF-fixdate in bytes (RFC 9110, section 5.6.7).
pub const DATE_BYTES: usize = 29;

/// The last second that an IMF-fixdate can express: the end of the year 9999.
const DATE_SECONDS_MAX: u64 = 253_402_300_799;

/// Interim answer to a client that waits for it before it sends a body (RFC 9110, section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Fields of a response that pages of another origin need and may not read by themselves: when to
/// come back, why a token is refused, and where a stream or the next poll goes on.
const EXPOSED_FIELDS: &str =
    "Retry-After, WWW-Authenticate, Encke-Last-Event-ID, Encke-Cursor, Encke-Reset";

/// The same of a stream with a history.
const EXPOSED_WITH_LAST_EVENT_ID: &str = "Retry-After, WWW-Authenticate, Encke-Last-Event-ID";

/// Field of a stream's head with the cursor that the stream continues from.
pub const LAST_EVENT_ID: &str = "Encke-Last-Event-ID";

/// CORS fields of a response (WHATWG Fetch, section 3.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cors<'a> {
    /// The value of `Access-Control-Allow-Origin`, when the origin is allowed: it or `*`.
    pub allow_origin: Option<&'a str>,
    /// Whether pages of that origin may send cookies and read the answer. Never with `*`.
    pub allow_credentials: bool,
    /// Whether the answer depends on the origin, so that caches need `Vary`.
    pub vary: bool,
}

/// Appends the head of a streaming answer with status 200, blank line included. `last_event_id` is
/// the cursor that the stream continues from, if there is a history.
pub fn stream_head(
    transport: Transport,
    framing: Framing,
    last_event_id: Option<&str>,
    date: &[u8; DATE_BYTES],
    cors: Cors<'_>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Type: ");
    out.extend_from_slice(transport.content_type().as_bytes());
    out.extend_from_slice(
        b"\r\nCache-Control: private, no-cache, no-store, must-revalidate, max-age=0\
          \r\nX-Accel-Buffering: no\
          \r\nX-Content-Type-Options: nosniff\r\n",
    );
    if transport == Transport::Test {
        // Payloads and ids leave as they are, labelled HTML: a browser may show them, not run them.
        out.extend_from_slice(b"Content-Security-Policy: sandbox\r\n");
    }
    out.extend_from_slice(match framing {
        Framing::Chunked => b"Transfer-Encoding: chunked\r\n",
        Framing::Close => b"Connection: close\r\n",
        Framing::WebSocket => b"",
    });
    let mut exposed = EXPOSED_FIELDS;
    if let Some(cursor) = last_event_id {
        push_field(LAST_EVENT_ID, cursor, out);
        exposed = EXPOSED_WITH_LAST_EVENT_ID;
    }
    push_date(date, out);
    push_cors_exposing(cors, exposed, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the head that switches a connection to WebSocket (RFC 6455, section 4.2.2), blank line
/// included. `last_event_id` is the cursor that the stream continues from, if there is a history.
pub fn switching_protocols(
    accept: &Accept,
    last_event_id: Option<&str>,
    date: &[u8; DATE_BYTES],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    );
    push_field("Sec-WebSocket-Accept", accept.as_str(), out);
    if let Some(cursor) = last_event_id {
        push_field(LAST_EVENT_ID, cursor, out);
    }
    push_date(date, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends a complete answer: head, `Content-Length` and body.
///
/// `fields` are further fields, whose names and values must be clean: no CR, LF or NUL. An empty
/// `content_type` is left out. With `head_only` (the request was HEAD) the length is told and the
/// body is not sent (RFC 9110, section 9.3.2). `keep_alive` says whether the connection stays open,
/// `version` whether that needs saying (RFC 9112, section 9.3). A 204 has neither length nor body
/// (RFC 9110, section 8.6).
#[expect(
    clippy::too_many_arguments,
    reason = "one call site per answer; each argument is a line"
)]
pub fn full(
    status: Status,
    content_type: &str,
    fields: &[(&str, &str)],
    body: &[u8],
    head_only: bool,
    keep_alive: bool,
    version: Version,
    date: &[u8; DATE_BYTES],
    cors: Cors<'_>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status.code()).as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.phrase().as_bytes());
    out.extend_from_slice(b"\r\n");
    if !content_type.is_empty() {
        push_field("Content-Type", content_type, out);
    }
    for &(name, value) in fields {
        push_field(name, value, out);
    }
    let has_content = status != Status::NO_CONTENT;
    if has_content {
        push_field(
            "Content-Length",
            itoa::Buffer::new().format(body.len()),
            out,
        );
    }
    match (keep_alive, version) {
        (true, Version::Http11) => {}
        (true, Version::Http10) => push_field("Connection", "keep-alive", out),
        (false, _) => push_field("Connection", "close", out),
    }
    push_date(date, out);
    push_cors(cors, out);
    out.extend_from_slice(b"\r\n");
    if has_content && !head_only {
        out.extend_from_slice(body);
    }
}

/// Formats the date `unix_seconds` after 1970 as an IMF-fixdate, `Sun, 06 Nov 1994 08:49:37 GMT`
/// (RFC 9110, section 5.6.7). Dates after the year 9999 become the end of that year.
pub fn http_date(unix_seconds: u64) -> [u8; DATE_BYTES] {
    let mut date = [0; DATE_BYTES];
    let written = write!(&mut date[..], "{}", HttpDate::from(time(unix_seconds)));
    written.expect("all dates have this length");
    date
}

/// Formats the time `unix_seconds` after 1970 as RFC 3339 does, `1994-11-06T08:49:37Z`. Times after
/// the year 9999 become the end of that year.
pub fn timestamp(unix_seconds: u64) -> String {
    humantime::format_rfc3339_seconds(time(unix_seconds)).to_string()
}

fn time(unix_seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(unix_seconds.min(DATE_SECONDS_MAX))
}

fn push_date(date: &[u8; DATE_BYTES], out: &mut Vec<u8>) {
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(date);
    out.extend_from_slice(b"\r\n");
}

fn push_cors(cors: Cors<'_>, out: &mut Vec<u8>) {
    push_cors_exposing(cors, EXPOSED_FIELDS, out);
}

fn push_cors_exposing(cors: Cors<'_>, exposed: &str, out: &mut Vec<u8>) {
    if let Some(origin) = cors.allow_origin {
        push_field("Access-Control-Allow-Origin", origin, out);
        if cors.allow_credentials {
            push_field("Access-Control-Allow-Credentials", "true", out);
        }
        push_field("Access-Control-Expose-Headers", exposed, out);
    }
    if cors.vary {
        push_field("Vary", "Origin", out);
    }
}

fn push_field(name: &str, value: &str, out: &mut Vec<u8>) {
    debug_assert!(
        memchr::memchr3(b'\r', b'\n', 0, value.as_bytes()).is_none(),
        "a field value must not break out of its line"
    );
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}
