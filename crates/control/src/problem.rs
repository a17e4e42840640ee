//! Errors as RFC 9457 problem details.
//!
//! Owns their form. Must never decide that something is an error.

use std::borrow::Cow;
use std::fmt::Display;

use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use wire::head::HeadError;

/// The media type of problem details.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// An error on its way to the client. Lives until it is written.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: Cow<'static, str>,
    header: Option<(HeaderName, &'static str)>,
    /// Whether the connection ends after it.
    closes: bool,
}

#[derive(Serialize)]
struct Details<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            detail: detail.into(),
            header: None,
            closes: false,
        }
    }

    /// The request cannot be understood: `what` names its part, `why` says what is wrong.
    pub(crate) fn bad(what: &str, why: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{what}: {why}"))
    }

    /// The head of the request breaks a rule.
    pub(crate) fn bad_head(error: HeadError) -> Self {
        let status = StatusCode::from_u16(error.status().code());
        Self::new(status.unwrap_or(StatusCode::BAD_REQUEST), error.reason())
    }

    pub(crate) fn too_large(detail: String) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    pub(crate) fn unauthorized(detail: &'static str, challenge: &'static str) -> Self {
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, detail);
        problem.header = Some((WWW_AUTHENTICATE, challenge));
        problem
    }

    /// The token of the request does not suffice (RFC 6750, section 3.1).
    pub(crate) fn forbidden(detail: String, challenge: &'static str) -> Self {
        let mut problem = Self::new(StatusCode::FORBIDDEN, detail);
        problem.header = Some((WWW_AUTHENTICATE, challenge));
        problem
    }

    /// The server cannot do it now; the client may ask again in a second.
    pub(crate) fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        problem.header = Some((RETRY_AFTER, "1"));
        problem
    }

    /// The same as the last answer of its connection.
    pub(crate) const fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// The same with another sentence.
    pub(crate) fn saying(mut self, detail: String) -> Self {
        self.detail = detail.into();
        self
    }

    /// The body it is answered with.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let details = Details {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        serde_json::to_vec(&details).expect("strings and a number are JSON")
    }

    /// The status it is answered with.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence that says what was wrong.
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
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        if self.closes {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }
}
