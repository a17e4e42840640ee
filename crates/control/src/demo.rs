//! What the demo page may ask of the control listener, on which it publishes and subscribes.
//!
//! Owns who may: the page of this server's public listener, in a browser on this machine. The page
//! is of another origin than the control listener, so its browser names that origin, and hands an
//! answer out only if the origin is allowed by name (WHATWG Fetch, section 3.2). A page of another
//! origin learns nothing and may do nothing; nor may one whose host name was made to lead here. A
//! request to do something also carries the secret of this run, in a field for which a browser asks
//! first. Must never answer a request that came through a proxy.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, HOST, ORIGIN, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::json;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use wire::host::{Host, is_forwarding_field, split_port};

use crate::api::Shared;
use crate::authorization::take_place;
use crate::caller::Caller;
use crate::limits::DEMO_REQUESTS_MAX;
use crate::problem::{Problem, method_not_allowed, not_found};
use crate::{publish, subscriptions};

/// Field that carries the secret.
const SECRET: &str = "x-encke-demo";

/// Prefix of the paths that need the secret.
const PREFIX: &str = "/demo";

/// What lets the page publish.
#[derive(Debug, Clone)]
pub struct Demo {
    /// What requests of the page carry.
    pub secret: DemoSecret,
    /// Where the page is served: the addresses of the public listeners.
    pub public: Vec<SocketAddr>,
}

/// Secret in requests of the demo page: 128 random bits, valid for one run. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct DemoSecret(Arc<str>);

impl DemoSecret {
    /// Makes a secret of random bits.
    ///
    /// ```
    /// let secret = control::DemoSecret::new(0xec1e);
    /// assert_eq!(secret.reveal(), "0000000000000000000000000000ec1e");
    /// ```
    pub fn new(random: u128) -> Self {
        Self(format!("{random:032x}").into())
    }

    /// Returns the secret as requests carry it: 32 hexadecimal digits.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether `given` is the secret, in constant time.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl std::fmt::Debug for DemoSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DemoSecret(…)")
    }
}

/// What all requests of the page share.
#[derive(Clone)]
struct Page {
    demo: Arc<Demo>,
    /// Bound on the requests under way.
    room: Arc<Semaphore>,
}

/// Routes beside those of the API, which pages may not use.
pub(crate) fn routes(demo: Demo, api: Shared) -> Router {
    let page = Page {
        demo: Arc::new(demo),
        room: Arc::new(Semaphore::new(DEMO_REQUESTS_MAX)),
    };
    // No bodies, no sessions, no bulk.
    let edge = put(subscriptions::add).delete(subscriptions::remove);
    let actions = Router::new()
        .route("/v1/publish/{subject}", post(publish::of_page))
        .route("/v1/subscriptions/{subscriber}/{subject}", edge)
        .route(
            "/v1/subscriptions/{subscriber}",
            get(subscriptions::subscriptions),
        )
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api)
        .layer(from_fn_with_state(page.clone(), check_secret));
    Router::new()
        .route("/v1/demo/secret", get(secret))
        .nest_service(PREFIX, actions)
        .layer(from_fn_with_state(page.clone(), check_origin))
        .with_state(page)
}

/// `GET /v1/demo/secret`
async fn secret(State(page): State<Page>) -> Response {
    Json(json!({ "secret": page.demo.secret.reveal() })).into_response()
}

/// Passes on what the page of this server asks, in a browser on this machine, and lets that browser
/// hand the answer to the page.
async fn check_origin(State(page): State<Page>, request: Request, next: Next) -> Response {
    let Some(origin) = page_origin(&page.demo, request.headers()).cloned() else {
        return Problem::new(
            StatusCode::FORBIDDEN,
            "only the page of this server, opened on the same machine, may send this request",
        )
        .into_response();
    };
    let mut response = match *request.method() {
        Method::OPTIONS => preflight(),
        // The prefix of a path is removed with all slashes behind it.
        _ if request.uri().path().contains("//") => not_found(request).await.into_response(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(VARY, HeaderValue::from_static("Origin"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Passes on a request with the secret of this run, if not too many are under way.
async fn check_secret(State(page): State<Page>, mut request: Request, next: Next) -> Response {
    let mut given = request.headers().get_all(SECRET).iter();
    let (first, second) = (given.next(), given.next());
    if !first.is_some_and(|given| page.demo.secret.matches(given.as_bytes())) || second.is_some() {
        let reason = "the request does not contain the secret of this run; reload the page";
        return Problem::new(StatusCode::FORBIDDEN, reason).into_response();
    }
    if !axum::body::HttpBody::is_end_stream(request.body()) {
        let reason = "the request must not have a body; put the payload into ?data=";
        return Problem::too_large(reason.to_owned()).into_response();
    }
    if let Err(problem) = take_place(&request) {
        return problem.into_response();
    }
    let Ok(_room) = page.room.try_acquire() else {
        let busy = "too many pages sent requests at once; try again in a second";
        return Problem::unavailable(busy).into_response();
    };
    // The page works only where no token is needed.
    request.extensions_mut().insert(Caller::new(None));
    next.run(request).await
}

/// Returns what a browser may send on behalf of the page.
fn preflight() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
        (ACCESS_CONTROL_ALLOW_HEADERS, SECRET),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Returns the origin of a request, if it is the page's, and the request was sent to a name of this
/// machine and by no proxy.
fn page_origin<'a>(demo: &Demo, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    }
    let is_direct = !headers
        .keys()
        .any(|name| is_forwarding_field(name.as_str()));
    let host = only(headers, &HOST)?.to_str().ok()?;
    let origin = only(headers, &ORIGIN)?;
    let text = origin.to_str().ok()?;
    let mut public = demo.public.iter();
    let is_page = public.any(|address| is_page(text, address.port()));
    (is_direct && is_page && Host::of(host).is_loopback()).then_some(origin)
}

/// Returns whether an origin is that of this server's page, under a name of this machine.
fn is_page(origin: &str, public_port: u16) -> bool {
    origin.strip_prefix("http://").is_some_and(|authority| {
        let (_, port) = split_port(authority);
        Host::of(authority).is_loopback() && port.unwrap_or(80) == public_port
    })
}
