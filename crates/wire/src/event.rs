//! Events, as the encoders see them.
//!
//! Owns the borrowed view of one event. Must never own the bytes or know a transport.

/// Id that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    /// An integer id.
    Integer(u64),
    /// A string id.
    Text(&'a str),
}

/// Content of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// One JSON value in UTF-8. The caller has validated it; line breaks between its tokens are
    /// allowed.
    Json(&'a [u8]),
    /// Any text in UTF-8, which the caller has validated.
    Text(&'a [u8]),
    /// Any bytes; sent as base64 (RFC 4648, section 4) where the transport carries text.
    Binary(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// Returns the bytes as they were published.
    pub const fn as_bytes(self) -> &'a [u8] {
        match self {
            Self::Json(bytes) | Self::Text(bytes) | Self::Binary(bytes) => bytes,
        }
    }
}

/// Event, borrowed for the time of its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Name of the run of the server that numbered this event.
    pub epoch: &'a str,
    /// Sequence number within that run.
    pub position: u64,
    /// Number up to which the client then has all events that concern it: that of this event, or a
    /// lower one while an earlier event is on its way.
    pub complete: u64,
    /// What the event is about.
    pub subject: Subject<'a>,
    /// The type that the publisher named: one line, not empty, without control characters, as no
    /// transport could carry another.
    pub kind: Option<&'a str>,
    /// The content.
    pub payload: Payload<'a>,
}

/// Appends an event's id, `<epoch>-<position>`, which clients use as a cursor. A third part says up
/// to where the client has everything, if that is not the event itself.
pub(crate) fn push_id(event: &Event<'_>, out: &mut Vec<u8>) {
    push_cursor(event.epoch, event.position, out);
    if event.complete < event.position {
        out.push(b'-');
        out.extend_from_slice(itoa::Buffer::new().format(event.complete).as_bytes());
    }
}

/// Appends the cursor of a client that has everything up to a position.
pub(crate) fn push_cursor(epoch: &str, position: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(epoch.as_bytes());
    out.push(b'-');
    out.extend_from_slice(itoa::Buffer::new().format(position).as_bytes());
}

/// Appends `bytes` as base64 with padding (RFC 4648, section 4).
pub(crate) fn push_base64(bytes: &[u8], out: &mut Vec<u8>) {
    use base64::Engine as _;
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    base64::engine::general_purpose::STANDARD
        .encode_slice(bytes, &mut out[start..])
        .expect("the space was sized for the padded form");
}

/// Replaces every CR and LF in `bytes` by a space.
pub(crate) fn blank_line_breaks(bytes: &mut [u8]) {
    let mut from = 0;
    while let Some(found) = memchr::memchr2(b'\r', b'\n', &bytes[from..]) {
        bytes[from + found] = b' ';
        from += found + 1;
    }
}
