//! Authorization of requests: by the bearer token, or, without one, by coming directly from a
//! program on this machine.
//!
//! In two steps. The first, before the route is known, finds the caller. The second, at the route,
//! compares the caller's rights with those that the route needs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use wire::host::{Host, is_forwarding_field};

use crate::caller::{Caller, Need};
use crate::live_tokens::{Denial, LiveTokens};
use crate::places::Place;
use crate::problem::Problem;
use crate::tokens::Token;

/// Paths that need no authorization: health checks, for probes that have no token.
pub(crate) const UNAUTHENTICATED: &[&str] = &["/healthz", "/livez", "/readyz"];

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Passes an authorized request on with its [`Caller`], and answers any other with a problem.
pub(crate) async fn authenticate(
    State(tokens): State<LiveTokens>,
    mut request: Request,
    next: Next,
) -> Response {
    if UNAUTHENTICATED.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let caller = match find_caller(&tokens, request.headers()) {
        Ok(caller) => caller,
        Err((denial, problem)) => {
            tokens.deny(denial);
            return problem.into_response();
        }
    };
    if let Err(problem) = take_place(&request) {
        return problem.into_response();
    }
    tracing::debug!(
        token = caller.name(),
        method = %request.method(),
        path = request.uri().path(),
        "control request"
    );
    let token = caller.token().cloned();
    request.extensions_mut().insert(caller);
    match token {
        Some(token) if !request.body().is_end_stream() => {
            let generation = tokens.generation();
            let request = request.map(|body| {
                Body::new(AuthorizedBody {
                    body,
                    tokens,
                    generation,
                    token,
                })
            });
            next.run(request).await
        }
        _ => next.run(request).await,
    }
}

/// Passes a request on whose caller has the rights that its route needs.
pub(crate) async fn require(
    State((need, tokens)): State<(Need, LiveTokens)>,
    request: Request,
    next: Next,
) -> Response {
    let response = match Caller::of(&request).check(need) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    // A handler refuses ids that the caller may not name.
    if response.status() == StatusCode::FORBIDDEN {
        tokens.deny(Denial::Right);
    }
    response
}

fn find_caller(tokens: &LiveTokens, headers: &HeaderMap) -> Result<Caller, (Denial, Problem)> {
    if !tokens.are_needed() {
        check_local_program(headers).map_err(|problem| (Denial::NotLocal, problem))?;
    }
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let given = all.next();
    if all.next().is_some() {
        let why = "it occurs twice; send it once";
        let problem = Problem::bad("header Authorization", why);
        return Err((Denial::WrongToken, problem));
    }
    // A scheme is case-insensitive. Another scheme than Bearer carries no token.
    let secret = given.map(|given| {
        let given = given.as_bytes();
        match given.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"bearer ") => given[7..].trim_ascii(),
            _ => b"",
        }
    });
    match tokens.check(secret) {
        Ok(token) => Ok(Caller::new(token)),
        Err(denial) => {
            let (detail, challenge) = match denial {
                Denial::NoToken => (
                    "this server requires a token; send it as Authorization: Bearer <token>",
                    "Bearer realm=\"encke\"",
                ),
                _ => (
                    "the Authorization header does not contain a token of this server; send it as \
                     Authorization: Bearer <token>",
                    "Bearer realm=\"encke\", error=\"invalid_token\"",
                ),
            };
            Err((denial, Problem::unauthorized(detail, challenge)))
        }
    }
}

/// Counts the request's connection among those with authorized requests.
pub(crate) fn take_place(request: &Request) -> Result<(), Problem> {
    let place = request.extensions().get::<Arc<Place>>();
    place.map_or(Ok(()), |place| place.authorize()).map_err(|most| {
        let why = format!(
            "the control listener has {most} connections with authorized requests, which is its \
             limit; close unused ones, or send many events in one request with POST /v1/publish"
        );
        Problem::unavailable(why).closing()
    })
}

/// Refuses requests of foreign web pages and of proxies. Without a token every program on this
/// machine is authorized, but its browsers also run pages of strangers: their requests name another
/// site, or, after DNS rebinding, another host. A proxy on this machine may forward requests of
/// strangers under a name of this machine.
///
/// The console is a page of this listener. Its requests have the listener's own origin, which no
/// other page can have: an origin is the host and the port that a page was loaded from, and the
/// host must be one that leads nowhere else.
fn check_local_program(headers: &HeaderMap) -> Result<(), Problem> {
    if is_foreign_page(headers) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the request comes from a web page; without a token the control API answers only \
             programs and its own console; start the server with --control-token, and send the \
             token",
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

/// Returns whether a request is that of a web page which this listener has not served.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    let is_own = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    if !headers.get_all(FETCH_SITE).iter().all(is_own) {
        return true;
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => false,
        (Some(origin), None) => !is_own_origin(origin, headers),
        (Some(_), Some(_)) => true,
    }
}

/// Returns whether an `Origin` is that of the host and port that the request was sent to.
fn is_own_origin(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let (Ok(origin), Ok(host)) = (origin.to_str(), host.to_str()) else {
        return false;
    };
    let mut schemes = ["http://", "https://"].into_iter();
    let authority = schemes.find_map(|scheme| origin.strip_prefix(scheme));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Body of a request whose token may be removed or changed while it is read.
struct AuthorizedBody {
    body: Body,
    tokens: LiveTokens,
    /// That of the tokens that were looked at last.
    generation: u64,
    token: Arc<Token>,
}

impl AuthorizedBody {
    fn is_authorized(&mut self) -> bool {
        let generation = self.tokens.generation();
        let same = generation == self.generation || self.tokens.has(&self.token);
        self.generation = generation;
        same
    }
}

impl HttpBody for AuthorizedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_some() && !self.is_authorized() {
            let why = "the token of the request was removed or changed";
            return Poll::Ready(Some(Err(axum::Error::new(why))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
