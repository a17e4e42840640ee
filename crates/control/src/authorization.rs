//! Authorization of requests: by the bearer token, or, without one, by coming directly from a
//! program on this machine.
//!
//! Must never depend on the route of a request, except for the health checks, which need none.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use wire::host::{Host, is_forwarding_field};

use crate::limits::AUTHORIZED_MAX;
use crate::listener::Place;
use crate::problem::Problem;

/// The bearer token that requests must carry, if any.
pub(crate) type Token = Option<Arc<str>>;

/// Paths that need no authorization: health checks, for probes that have no token.
pub(crate) const UNAUTHENTICATED: &[&str] = &["/healthz", "/livez", "/readyz"];

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Passes an authorized request on, and answers any other with a problem.
pub(crate) async fn authorize(
    State(token): State<Token>,
    request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let allowed = match &token {
        _ if UNAUTHENTICATED.contains(&request.uri().path()) => return next.run(request).await,
        Some(token) => check_token(headers, token),
        None => check_local_program(headers),
    };
    match allowed.and_then(|()| take_place(&request)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

/// Counts the request's connection among those with authorized requests.
fn take_place(request: &Request) -> Result<(), Problem> {
    match request.extensions().get::<Arc<Place>>() {
        Some(place) if !place.authorize() => Err(Problem::unavailable(format!(
            "the control listener has {AUTHORIZED_MAX} connections with authorized requests, which \
             is its limit; close unused ones, or send many events in one request with POST \
             /v1/publish"
        ))
        .closing()),
        _ => Ok(()),
    }
}

fn check_token(headers: &HeaderMap, token: &str) -> Result<(), Problem> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let given = all.next();
    if all.next().is_some() {
        return Err(Problem::bad(
            "header Authorization",
            "it occurs twice; send it once",
        ));
    }
    let Some(given) = given else {
        return Err(Problem::unauthorized(
            "this server requires a token; send it as Authorization: Bearer <token>",
            "Bearer realm=\"encke\"",
        ));
    };
    // The scheme is case-insensitive. The comparison takes the same time wherever the texts differ.
    let given = given.as_bytes();
    let right = given
        .get(..7)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
        && bool::from(given[7..].trim_ascii().ct_eq(token.as_bytes()));
    match right {
        true => Ok(()),
        false => Err(Problem::unauthorized(
            "the Authorization header does not contain this server's token; send it as \
             Authorization: Bearer <token>",
            "Bearer realm=\"encke\", error=\"invalid_token\"",
        )),
    }
}

/// Refuses requests of foreign web pages and of proxies. Without a token every program on this
/// machine is authorized, but its browsers also run pages of strangers: their requests name another
/// site, or, after DNS rebinding, another host. A proxy on this machine may forward requests of
/// strangers under a name of this machine.
fn check_local_program(headers: &HeaderMap) -> Result<(), Problem> {
    let foreign = headers.contains_key(ORIGIN)
        || headers
            .get_all(FETCH_SITE)
            .iter()
            .any(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"));
    if foreign {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the request comes from a web page; without a token the control API answers only \
             programs; start the server with --control-token, and send the token",
        ));
    }
    if headers
        .keys()
        .any(|name| is_forwarding_field(name.as_str()))
    {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the request came through a proxy (Forwarded, X-Forwarded-* or Via); without a token \
             the control API answers only direct requests; start the server with --control-token, \
             and send the token",
        ));
    }
    match headers
        .get(HOST)
        .map(|host| host.to_str().is_ok_and(|host| Host::of(host).is_fixed()))
    {
        None | Some(true) => Ok(()),
        Some(false) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the Host header is neither an IP address nor localhost; without a token the control \
             API requires one of these; start the server with --control-token, and send the token",
        )),
    }
}
