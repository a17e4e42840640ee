//! The secret of the demo page, for the page alone.
//!
//! Owns who gets it: the page of this server's public listener, in a browser on this machine. The
//! page is of another origin than the control listener, so its browser names that origin and hands
//! the answer out only if it is allowed by name (WHATWG Fetch, section 3.2). Must never give the
//! secret to a request that came through a proxy.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, HOST, ORIGIN, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use server::DemoSecret;
use wire::host::{Host, is_forwarding_field, split_port};

use crate::problem::Problem;

/// What lets the page publish.
#[derive(Debug, Clone)]
pub struct Demo {
    /// What requests of the page carry.
    pub secret: DemoSecret,
    /// Where the page is served: the addresses of the public listeners.
    pub public: Vec<SocketAddr>,
}

/// Routes beside those of the API, which pages may not use.
pub(crate) fn routes(demo: Demo) -> Router {
    let route = get(secret).with_state(Arc::new(demo));
    Router::new().route("/v1/demo/secret", route)
}

#[derive(Serialize)]
struct Secret<'a> {
    secret: &'a str,
}

/// `GET /v1/demo/secret`
async fn secret(State(demo): State<Arc<Demo>>, headers: HeaderMap) -> Result<Response, Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_direct = !headers
        .keys()
        .any(|name| is_forwarding_field(name.as_str()));
    let is_local = text(HOST).is_some_and(|host| Host::of(host).is_loopback());
    let origin = text(ORIGIN).filter(|origin| {
        let mut public = demo.public.iter();
        public.any(|address| is_page(origin, address.port()))
    });
    let Some(origin) = origin.filter(|_| is_direct && is_local) else {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "only the page of this server, opened on the same machine, may request the secret",
        ));
    };
    let headers = [
        (ACCESS_CONTROL_ALLOW_ORIGIN, origin),
        (VARY, "Origin"),
        (CACHE_CONTROL, "no-store"),
    ];
    let secret = demo.secret.reveal();
    Ok((headers, Json(Secret { secret })).into_response())
}

/// Returns whether an origin is that of this server's page, under a name of this machine.
fn is_page(origin: &str, public_port: u16) -> bool {
    origin.strip_prefix("http://").is_some_and(|authority| {
        let (_, port) = split_port(authority);
        Host::of(authority).is_loopback() && port.unwrap_or(80) == public_port
    })
}
