//! Status codes that this server answers with.
//!
//! Owns the pairing of code and phrase. Must never choose the status of an answer: each error type
//! has its own.

/// Status code that this server may answer with (RFC 9110, section 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(u16);

macro_rules! statuses {
    ($($name:ident $code:literal $phrase:literal,)*) => {
        impl Status {
            $(
                #[doc = concat!($code, " ", $phrase, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every status above, in ascending order.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the phrase that follows the code on the status line.
            pub const fn phrase(self) -> &'static str {
                match self.0 {
                    $($code => $phrase,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    OK 200 "OK",
    NO_CONTENT 204 "No Content",
    BAD_REQUEST 400 "Bad Request",
    UNAUTHORIZED 401 "Unauthorized",
    FORBIDDEN 403 "Forbidden",
    NOT_FOUND 404 "Not Found",
    METHOD_NOT_ALLOWED 405 "Method Not Allowed",
    REQUEST_TIMEOUT 408 "Request Timeout",
    LENGTH_REQUIRED 411 "Length Required",
    CONTENT_TOO_LARGE 413 "Content Too Large",
    URI_TOO_LONG 414 "URI Too Long",
    MISDIRECTED_REQUEST 421 "Misdirected Request",
    UPGRADE_REQUIRED 426 "Upgrade Required",
    TOO_MANY_REQUESTS 429 "Too Many Requests",
    HEADER_FIELDS_TOO_LARGE 431 "Request Header Fields Too Large",
    INTERNAL_SERVER_ERROR 500 "Internal Server Error",
    NOT_IMPLEMENTED 501 "Not Implemented",
    SERVICE_UNAVAILABLE 503 "Service Unavailable",
    VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported",
}

impl Status {
    /// Returns the three digits as a number.
    pub const fn code(self) -> u16 {
        self.0
    }
}
