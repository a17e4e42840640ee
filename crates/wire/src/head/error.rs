//! Reasons to refuse a head.
//!
//! Owns the status and the sentence for each. Must never close a connection: the caller answers and
//! closes it, because after any of these errors the start of the next request is unknown.

use crate::status::Status;

/// Reason why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadError {
    /// The first byte is that of a TLS handshake record (RFC 8446, section 5.1).
    Tls,
    /// The request line is not method, target, version (RFC 9112, section 3).
    RequestLine,
    /// The target has none of the forms of RFC 9112, section 3.2, or an unfit character.
    Target,
    /// The target is longer than [`super::TARGET_BYTES_MAX`].
    TargetTooLong,
    /// The connection preface of HTTP/2 (RFC 9113, section 3.4).
    Http2,
    /// The version is neither 1.0 nor 1.1.
    Version,
    /// A line ends without CR. RFC 9112, section 2.2 allows a reader to take it for a line's end,
    /// which is how two readers come to differ.
    BareLineFeed,
    /// A CR without LF (RFC 9112, section 2.2).
    BareCarriageReturn,
    /// A NUL byte (RFC 9110, section 5.5).
    Nul,
    /// The head is longer than [`super::HEAD_BYTES_MAX`].
    TooLong,
    /// There are more fields than [`super::FIELDS_MAX`].
    TooManyFields,
    /// A field name is empty or has a character that is not of a token (RFC 9110, section 5.1).
    FieldName,
    /// White space before a field's colon (RFC 9112, section 5.1).
    SpaceBeforeColon,
    /// A field continued on a second line (RFC 9112, section 5.2).
    Folded,
    /// A field value has a control character (RFC 9110, section 5.5), or one that this server reads
    /// is not UTF-8.
    FieldValue,
    /// HTTP/1.1 without `Host` (RFC 9112, section 3.2).
    HostMissing,
    /// More than one `Host` (RFC 9112, section 3.2).
    HostRepeated,
    /// A `Host` that is not `host[:port]` (RFC 9112, section 3.2).
    HostInvalid,
    /// The target names another host than `Host` does (RFC 9112, section 3.2.2).
    OtherHost,
    /// More than one `Origin`.
    OriginRepeated,
    /// `Content-Length` beside `Transfer-Encoding` (RFC 9112, section 6.1).
    TwoLengths,
    /// More than one `Content-Length`, equal or not (RFC 9112, section 6.3).
    ContentLengthRepeated,
    /// A `Content-Length` that is not a number (RFC 9110, section 8.6).
    ContentLengthInvalid,
    /// A `Transfer-Encoding` that does not end with a single `chunked` (RFC 9112, section 6.3).
    TransferEncodingInvalid,
    /// A `Transfer-Encoding` with a coding before `chunked` (RFC 9112, section 6.1).
    TransferEncodingUnknown,
    /// `Transfer-Encoding` on HTTP/1.0 (RFC 9112, section 6.1).
    TransferEncodingOnHttp10,
}

impl HeadError {
    /// Returns the status to answer with.
    pub const fn status(self) -> Status {
        match self {
            Self::TargetTooLong => Status::URI_TOO_LONG,
            Self::Http2 | Self::Version => Status::VERSION_NOT_SUPPORTED,
            Self::TooLong | Self::TooManyFields => Status::HEADER_FIELDS_TOO_LARGE,
            Self::TransferEncodingUnknown => Status::NOT_IMPLEMENTED,
            _ => Status::BAD_REQUEST,
        }
    }

    /// Returns a sentence for the client: what was wrong and what is needed.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Tls => {
                "This looks like TLS, but this port expects plain HTTP: use http://, not https://."
            }
            Self::RequestLine => {
                "The request line is malformed: it must be a method, a \
                 target and a version, with one space between them."
            }
            Self::Target => {
                "The request target is malformed: it must begin with a slash, and \
                 spaces, control characters and # must be percent-encoded."
            }
            Self::TargetTooLong => "The request target is too long: at most 4096 bytes.",
            Self::Http2 => "This port does not support HTTP/2: use HTTP/1.1.",
            Self::Version => "This version of HTTP is not supported: use HTTP/1.1 or HTTP/1.0.",
            Self::BareLineFeed => "A line of the head ends with LF only: it must end with CR LF.",
            Self::BareCarriageReturn => {
                "The head has a CR without LF: each line must end with CR LF."
            }
            Self::Nul => "The head has a NUL byte: remove it.",
            Self::TooLong => "The head is too long: at most 8192 bytes.",
            Self::TooManyFields => "The head has too many fields: at most 64.",
            Self::FieldName => {
                "A header field is malformed: it must begin with a name \
                 of letters, digits and hyphens, followed by a colon."
            }
            Self::SpaceBeforeColon => "A header field has white space before its colon: remove it.",
            Self::Folded => "A header field is folded over two lines: write it on one line.",
            Self::FieldValue => {
                "A header field's value is malformed: it must be UTF-8 without control characters."
            }
            Self::HostMissing => "The Host field is missing: HTTP/1.1 requires one.",
            Self::HostRepeated => "There is more than one Host field: send only one.",
            Self::HostInvalid => {
                "The Host field is malformed: it must be a host \
                 name or address, with an optional port."
            }
            Self::OtherHost => {
                "The request target and the Host field name different hosts: they must be equal."
            }
            Self::OriginRepeated => "There is more than one Origin field: send only one.",
            Self::TwoLengths => {
                "The request has both Content-Length and Transfer-Encoding: send only one of them."
            }
            Self::ContentLengthRepeated => "There is more than one Content-Length: send only one.",
            Self::ContentLengthInvalid => {
                "The Content-Length is malformed: it must be a decimal number."
            }
            Self::TransferEncodingInvalid => {
                "The Transfer-Encoding is malformed: it must be chunked."
            }
            Self::TransferEncodingUnknown => {
                "This Transfer-Encoding is not supported: use only chunked."
            }
            Self::TransferEncodingOnHttp10 => {
                "HTTP/1.0 does not allow Transfer-Encoding: send Content-Length, or use HTTP/1.1."
            }
        }
    }
}
