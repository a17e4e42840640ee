//! Errors as RFC 9457 problem details.
//!
//! Owns their form. Must never decide that something is an error.

use std::borrow::Cow;
use std::fmt::Display;

use axum::Json;
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use wire::head::HeadError;

use crate::problem_type::PREFIX;
pub(crate) use crate::problem_type::ProblemType;

/// The media type of problem details.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Result of a handler: the answer, or what is wrong.
pub(crate) type Answered = Result<Response, Problem>;

/// Answers with a value in JSON.
pub(crate) fn in_json(value: impl Serialize) -> Answered {
    Ok(Json(value).into_response())
}

/// An error for the client. Lives until the answer is written.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: ProblemType,
    detail: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    /// Whether the connection is closed after the answer.
    closes: bool,
}

#[derive(Serialize)]
struct Details<'a> {
    r#type: Cow<'static, str>,
    title: &'static str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            kind: ProblemType::of(status),
            detail: detail.into(),
            header: None,
            closes: false,
        }
    }

    /// Returns the problem of a malformed request (400). `what` is the part of the request, `why`
    /// the reason.
    pub(crate) fn bad(what: &str, why: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{what}: {why}"))
    }

    /// Returns the problem of a malformed request head.
    pub(crate) fn bad_head(error: HeadError) -> Self {
        let status = StatusCode::from_u16(error.status().code());
        Self::new(status.unwrap_or(StatusCode::BAD_REQUEST), error.reason())
    }

    pub(crate) fn too_large(detail: String) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    pub(crate) fn unauthorized(detail: &'static str, challenge: &'static str) -> Self {
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, detail);
        problem.header = Some((WWW_AUTHENTICATE, HeaderValue::from_static(challenge)));
        problem
    }

    /// Returns the problem of a token that lacks a right (403; RFC 6750, section 3.1).
    pub(crate) fn forbidden(detail: String, challenge: &str) -> Self {
        let challenge = HeaderValue::from_str(challenge).expect("names of rights are ASCII");
        let mut problem =
            Self::new(StatusCode::FORBIDDEN, detail).of_type(ProblemType::InsufficientRight);
        problem.header = Some((WWW_AUTHENTICATE, challenge));
        problem
    }

    /// Returns the problem of a request that conflicts with another one (409).
    pub(crate) fn conflict(detail: &'static str) -> Self {
        Self::new(StatusCode::CONFLICT, detail).with_retry_after(1)
    }

    /// Returns the problem of a server that is unavailable for a moment (503), with a retry after 1
    /// s.
    pub(crate) fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).with_retry_after(1)
    }

    /// Sets the time after which the client may retry.
    pub(crate) fn with_retry_after(mut self, seconds: u64) -> Self {
        self.header = Some((RETRY_AFTER, HeaderValue::from(seconds)));
        self
    }

    /// Sets the type of the problem.
    pub(crate) const fn of_type(mut self, kind: ProblemType) -> Self {
        self.kind = kind;
        self
    }

    /// Closes the connection after the answer.
    pub(crate) const fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Sets the sentence.
    pub(crate) fn saying(mut self, detail: String) -> Self {
        self.detail = detail.into();
        self
    }

    /// Returns the body of the answer.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let (kind, title) = match self.kind.title() {
            Some(title) => (format!("{PREFIX}{}", self.kind.name()).into(), title),
            None => {
                let reason = self.status.canonical_reason();
                (Cow::Borrowed("about:blank"), reason.unwrap_or("Error"))
            }
        };
        let details = Details {
            r#type: kind,
            title,
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        serde_json::to_vec(&details).expect("strings and a number are JSON")
    }
    /// Returns the status of the answer.
    #[cfg(test)]
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the sentence that says what is wrong.
    #[cfg(test)]
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.to_json();
        let mut response = (self.status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        if self.closes {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }
}

/// Answers unknown paths.
pub(crate) async fn not_found(request: Request) -> Problem {
    let path = request.uri().path();
    // `/v1/publish/` names an id, the empty one.
    if path.starts_with("/v1/") && path[1..].split('/').any(str::is_empty) {
        return Problem::bad(
            &format!("path {path:?}"),
            "a segment is empty; an id must have at least one byte",
        );
    }
    Problem::new(
        StatusCode::NOT_FOUND,
        format!(
            "there is nothing at {path:?}; /openapi.json lists all paths, and /console is a page"
        ),
    )
}

/// Answers methods that the path does not take. The router adds the `Allow` header.
pub(crate) async fn method_not_allowed(request: Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path:?} does not accept {method}; the Allow header lists its methods"),
    )
}
