//! Which path and method lead to which handler.
//!
//! Owns the table that the OpenAPI page is tested against. Must never handle a request itself, but
//! for those that lead nowhere.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::api::Shared;
use crate::backend::Backend;
use crate::guard::{OPEN, Token, guard};
use crate::limits::CONNECTIONS_MAX;
use crate::problem::Problem;
use crate::unread::announce_end;
use crate::{backup, batch, bulk, health, metrics, publish, sessions, stats, subscriptions, whole};

/// Path, method in lower case, handler.
pub(crate) type Route<B> = (&'static str, &'static str, MethodRouter<Shared<B>>);

/// All routes in the order of the documentation.
pub(crate) fn table<B: Backend>() -> Vec<Route<B>> {
    vec![
        ("/v1/publish/{subject}", "post", post(publish::publish::<B>)),
        ("/v1/publish", "post", post(batch::publish::<B>)),
        ("/v1/send/{id}", "post", post(publish::send::<B>)),
        (
            "/v1/subscriptions/{subscriber}/{subject}",
            "put",
            put(subscriptions::add::<B>),
        ),
        (
            "/v1/subscriptions/{subscriber}/{subject}",
            "delete",
            delete(subscriptions::remove::<B>),
        ),
        (
            "/v1/subscriptions/{subscriber}",
            "put",
            put(whole::replace::<B>),
        ),
        (
            "/v1/subscriptions/{subscriber}",
            "delete",
            delete(whole::end::<B>),
        ),
        ("/v1/ids/{id}", "delete", delete(whole::forget::<B>)),
        ("/v1/subscriptions", "post", post(bulk::add::<B>)),
        ("/v1/subscriptions/remove", "post", post(bulk::remove::<B>)),
        (
            "/v1/subscribers/{subject}",
            "get",
            get(subscriptions::subscribers::<B>),
        ),
        (
            "/v1/subscriptions/{subscriber}",
            "get",
            get(subscriptions::subscriptions::<B>),
        ),
        ("/v1/graph/backup", "get", get(backup::backup::<B>)),
        (
            "/v1/graph/backup/erlang-ids",
            "get",
            get(backup::erlang_ids::<B>),
        ),
        ("/v1/sessions/{id}", "get", get(sessions::inspect::<B>)),
        ("/v1/sessions/{id}", "delete", delete(sessions::close::<B>)),
        ("/v1/slowest", "get", get(sessions::slowest::<B>)),
        ("/v1/stats", "get", get(stats::stats::<B>)),
        ("/metrics", "get", get(metrics::metrics::<B>)),
        ("/healthz", "get", get(health::healthz)),
        ("/livez", "get", get(health::healthz)),
        ("/readyz", "get", get(health::readyz::<B>)),
        ("/openapi.json", "get", get(health::openapi)),
    ]
}

/// The whole control API.
pub(crate) fn router<B: Backend>(api: Shared<B>) -> Router {
    let token = api.token.clone();
    let routes = table()
        .into_iter()
        .fold(Router::new(), |router, (path, _, handler)| {
            router.route(path, handler)
        })
        .fallback(lost)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api);
    guarded(routes, token)
}

/// Routes as those meet them who may come in.
pub(crate) fn guarded(routes: Router, token: Token) -> Router {
    routes
        .layer(from_fn_with_state(token, guard))
        .layer(from_fn(announce_end))
}

/// What a connection beyond the limit of connections meets: health checks, and a refusal of all else.
pub(crate) fn crowded<B: Backend>(api: Shared<B>) -> Router {
    table()
        .into_iter()
        .filter(|(path, ..)| OPEN.contains(path))
        .fold(Router::new(), |router, (path, _, handler)| {
            router.route(path, handler)
        })
        .fallback(no_place)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
}

async fn no_place() -> Problem {
    Problem::unavailable(format!(
        "the control listener has {CONNECTIONS_MAX} connections, as many as it takes; close some \
         that are not needed, or send many events on one with POST /v1/publish"
    ))
}

/// Answers a path that leads nowhere.
pub(crate) async fn lost(request: Request) -> Problem {
    let path = request.uri().path();
    // `/v1/publish/` names an id, the empty one.
    if path.starts_with("/v1/") && path[1..].split('/').any(str::is_empty) {
        return Problem::bad(
            &format!("path {path:?}"),
            "one of its segments is empty; an id needs at least one byte",
        );
    }
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {path:?}; /openapi.json lists what there is"),
    )
}

/// Answers a method that the path does not take; the router adds which it does.
pub(crate) async fn wrong_method(request: Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path:?} does not take {method}; the Allow header lists what it takes"),
    )
}
