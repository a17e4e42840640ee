//! Answers and their content.

use std::borrow::Cow;
use std::sync::Arc;

use wire::notice::ResetReason;
use wire::status::Status;

use super::page::{PAGE_FIELDS, page_of};
use crate::limits::RETRY_AFTER_SECONDS;

/// The client for browsers, which the page uses.
const CLIENT: &str = include_str!("../../../../clients/js/encke.js");

pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Media type of Server-Sent Events (WHATWG HTML, section 9.2.1).
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Media type of JavaScript (RFC 9239, section 6.1.1).
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// Fields of the answer to a CORS preflight request.
const PREFLIGHT_FIELDS: &[(&str, &str)] = &[
    ("Allow", "GET, HEAD, OPTIONS"),
    ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
    (
        "Access-Control-Allow-Headers",
        "Authorization, Last-Event-ID, Cache-Control, Accept",
    ),
    ("Access-Control-Max-Age", "86400"),
];

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    pub(crate) fields: Fields,
    pub(crate) body: Cow<'static, [u8]>,
}

/// Fields of an answer beyond those that every answer has.
#[derive(Debug, Clone)]
pub(crate) enum Fields {
    Fixed(&'static [(&'static str, &'static str)]),
    Allow(&'static str),
    /// `WWW-Authenticate` (RFC 9110, section 11.6.1).
    Challenge(String),
    /// Fields of the answer to a poll.
    Poll {
        /// The cursor of the next poll.
        cursor: String,
        /// Why events may be missing before these.
        reset: Option<ResetReason>,
    },
    /// Fields of the page, with this content security policy.
    Page(Arc<str>),
}

impl Answer {
    /// The answer to a probe that finds the server in order.
    pub(crate) const fn healthy() -> Self {
        Self {
            status: Status::OK,
            content_type: TEXT,
            fields: Fields::Fixed(&[("Cache-Control", "no-store")]),
            body: Cow::Borrowed(b"ok\n"),
        }
    }

    /// An error whose body is one line that says what was wrong.
    pub(crate) fn error(status: Status, reason: &'static str) -> Self {
        Self::error_owned(status, reason.to_owned())
    }

    pub(crate) fn error_owned(status: Status, mut reason: String) -> Self {
        reason.push('\n');
        Self {
            status,
            content_type: TEXT,
            fields: Fields::Fixed(&[]),
            body: Cow::Owned(reason.into_bytes()),
        }
    }

    pub(crate) fn busy(reason: &'static str) -> Self {
        let fields = Fields::Fixed(&[("Retry-After", RETRY_AFTER_SECONDS)]);
        Self {
            fields,
            ..Self::error(Status::SERVICE_UNAVAILABLE, reason)
        }
    }

    /// Refuses a request whose `Host` this server does not answer to. 421 says so more exactly than
    /// 403, which is about rights (RFC 9110, section 15.5.20).
    pub(crate) fn misdirected() -> Self {
        Self::error(
            Status::MISDIRECTED_REQUEST,
            "this server does not answer to the name in the Host header; use localhost or an IP \
             address, or start the server with --host NAME; a reverse proxy must send one of these \
             as Host",
        )
    }

    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        Self {
            fields: Fields::Allow(allow),
            ..Self::error(
                Status::METHOD_NOT_ALLOWED,
                "use GET to read a stream; use the control listener to publish",
            )
        }
    }

    pub(crate) const fn preflight() -> Self {
        Self {
            status: Status::NO_CONTENT,
            content_type: "",
            fields: Fields::Fixed(PREFLIGHT_FIELDS),
            body: Cow::Borrowed(&[]),
        }
    }

    /// An answer after which a browser's `EventSource` does not come back (WHATWG HTML, section
    /// 9.2.3).
    pub(crate) const fn stay_away() -> Self {
        Self {
            status: Status::NO_CONTENT,
            content_type: "",
            fields: Fields::Fixed(&[("Cache-Control", "no-store")]),
            body: Cow::Borrowed(&[]),
        }
    }

    pub(crate) fn no_page() -> Self {
        Self::error(
            Status::NOT_FOUND,
            "there is no page here: the server was started with --page=false; streams are at \
             /events/{id}, /stream/{id}, /test/{id} and /ws/{id}, polls at /poll/{id}",
        )
    }

    /// The page of a server that cannot publish for it.
    pub(crate) fn page(is_presence_kept: bool) -> Self {
        Self {
            status: Status::OK,
            content_type: HTML,
            fields: Fields::Fixed(PAGE_FIELDS),
            body: Cow::Borrowed(page_of(is_presence_kept).as_bytes()),
        }
    }

    pub(crate) const fn client() -> Self {
        Self {
            status: Status::OK,
            content_type: JAVASCRIPT,
            fields: Fields::Fixed(&[
                ("Cache-Control", "no-cache"),
                ("X-Content-Type-Options", "nosniff"),
            ]),
            body: Cow::Borrowed(CLIENT.as_bytes()),
        }
    }

    /// The description of the streams (AsyncAPI 3.0).
    pub(crate) fn asyncapi() -> Self {
        Self {
            content_type: "application/json",
            body: Cow::Borrowed(include_str!("../asyncapi.json").as_bytes()),
            ..Self::client()
        }
    }
}
