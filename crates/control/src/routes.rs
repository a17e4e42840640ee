//! The table of routes.
//!
//! Owns the table that the OpenAPI description is tested against. Must never handle a request
//! itself, except those that no route takes.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::api::Shared;
use crate::authorization::{Token, authorize};
use crate::backend::Backend;
use crate::problem::Problem;
use crate::unread_body::announce_close;
use crate::{
    backup, batch, bulk, health, metrics, publish, replace_subscriptions, sessions, stats,
    subscriptions,
};

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
            put(replace_subscriptions::replace::<B>),
        ),
        (
            "/v1/subscriptions/{subscriber}",
            "delete",
            delete(replace_subscriptions::end::<B>),
        ),
        (
            "/v1/ids/{id}",
            "delete",
            delete(replace_subscriptions::forget::<B>),
        ),
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
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api);
    require_authorization(routes, token)
}

/// Wraps routes in authorization.
pub(crate) fn require_authorization(routes: Router, token: Token) -> Router {
    routes
        .layer(from_fn_with_state(token, authorize))
        .layer(from_fn(announce_close))
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
        format!("there is nothing at {path:?}; /openapi.json lists all paths"),
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
