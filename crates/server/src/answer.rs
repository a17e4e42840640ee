//! Short answers: the page, errors, preflights.

use std::borrow::Cow;
use std::sync::Arc;

use reactor::Driver;
use reactor::SlotKey;
use wire::head::{Body, HeadError, Method, Request, Version};
use wire::response::{self, Cors};
use wire::status::Status;

use crate::clock::Tenths;
use crate::connection::{CloseReason, Phase};
use crate::limits::RETRY_AFTER_SECONDS;
use crate::stats::Metric;
use crate::worker::Worker;

/// The page at `/`.
pub(crate) const PAGE: &str = include_str!("page.html");

/// Content security policy of the page: nothing but itself may act in it, and nothing may frame it.
pub(crate) const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

const fn page_fields(policy: &str) -> [(&str, &str); 4] {
    [
        ("Cache-Control", "no-cache"),
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
    ]
}

const PAGE_FIELDS: &[(&str, &str)] = &page_fields(PAGE_POLICY);

pub(crate) const HTML: &str = "text/html; charset=utf-8";

const TEXT: &str = "text/plain; charset=utf-8";

/// What a browser asks before a cross-origin request with unusual fields.
const PREFLIGHT_FIELDS: &[(&str, &str)] = &[
    ("Allow", "GET, HEAD, OPTIONS"),
    ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
    (
        "Access-Control-Allow-Headers",
        "Last-Event-ID, Cache-Control, Accept",
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

/// Fields of an answer beyond those that each has.
#[derive(Debug, Clone)]
pub(crate) enum Fields {
    Fixed(&'static [(&'static str, &'static str)]),
    Allow(&'static str),
    /// Those of the page, with this content security policy.
    Page(Arc<str>),
}

impl Answer {
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

    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        Self {
            fields: Fields::Allow(allow),
            ..Self::error(
                Status::METHOD_NOT_ALLOWED,
                "streams are read with GET; publishing is done on the control listener",
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

    pub(crate) const fn page() -> Self {
        Self {
            status: Status::OK,
            content_type: HTML,
            fields: Fields::Fixed(PAGE_FIELDS),
            body: Cow::Borrowed(PAGE.as_bytes()),
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Answers a request; the connection goes on to the next if both sides want it to.
    pub(crate) fn answer(&mut self, key: SlotKey, request: &Request<'_>, answer: &Answer) {
        // A body is not read: what follows the head cannot be told from the next request.
        let bodiless = matches!(request.body, Body::None | Body::Sized(0));
        let keep_alive = request.keep_alive && bodiless && !self.is_draining();
        let head_only = request.method == Method::Head;
        let cors = self.cors(request.origin);
        self.give(key, answer, head_only, keep_alive, request.version, cors);
    }

    /// Answers what is not a request, and ends the connection: where the next would begin is unknown.
    pub(crate) fn reject_head(&mut self, key: SlotKey, error: HeadError) {
        let answer = Answer::error(error.status(), error.reason());
        self.give_last(key, &answer);
    }

    /// Answers a head that took too long.
    pub(crate) fn reject_late(&mut self, key: SlotKey) {
        let reason = "the request's head did not arrive in time; send it at once";
        let answer = Answer::error(Status::REQUEST_TIMEOUT, reason);
        self.give_last(key, &answer);
    }

    /// Answers a connection beyond a limit, without reading its request.
    pub(crate) fn refuse(&mut self, key: SlotKey) {
        let answer = Answer::busy("too many connections; try again later");
        self.give_last(key, &answer);
    }

    /// Gives an answer behind which nothing can follow: the next request could not be found, or is not
    /// wanted.
    pub(crate) fn give_last(&mut self, key: SlotKey, answer: &Answer) {
        self.give(key, answer, false, false, Version::Http11, Cors::default());
    }

    fn give(
        &mut self,
        key: SlotKey,
        answer: &Answer,
        head_only: bool,
        keep_alive: bool,
        version: Version,
        cors: Cors<'_>,
    ) {
        let is_error = answer.status.code() >= 400;
        let metric = if is_error {
            Metric::RequestsRejected
        } else {
            Metric::RequestsAnswered
        };
        self.stats.add(metric, 1);
        let (allow, page);
        let fields = match &answer.fields {
            Fields::Fixed(fields) => *fields,
            Fields::Allow(methods) => {
                allow = [("Allow", *methods)];
                &allow
            }
            Fields::Page(policy) => {
                page = page_fields(policy);
                &page
            }
        };
        let mut out = self.egress.scratch();
        response::full(
            answer.status,
            answer.content_type,
            fields,
            &answer.body,
            head_only,
            keep_alive,
            version,
            self.clock.date(),
            cors,
            &mut out,
        );
        self.write(key, &out);
        self.egress.put_back(out);
        if keep_alive {
            self.await_request(key);
        } else {
            self.end(
                key,
                if is_error {
                    CloseReason::Rejected
                } else {
                    CloseReason::Done
                },
            );
        }
    }

    /// The connection waits for its next request, from now.
    pub(crate) fn await_request(&mut self, key: SlotKey) {
        let since = Tenths::of(self.clock.now);
        if let Some(connection) = self.connection(key) {
            connection.phase = Phase::Head { partial: false };
            connection.since = since;
            self.time(key);
        }
    }

    /// What a browser page of another origin may know: nothing, unless the operator named it.
    pub(crate) fn cors<'a>(&self, origin: Option<&'a str>) -> Cors<'a> {
        let allowed = &self.shared.settings.cors_origins;
        match origin {
            _ if allowed.is_empty() => Cors::default(),
            _ if allowed.iter().any(|origin| origin == "*") => Cors {
                allow_origin: Some("*"),
                vary: false,
            },
            origin => Cors {
                allow_origin: origin.filter(|origin| allowed.iter().any(|known| known == origin)),
                vary: true,
            },
        }
    }
}
