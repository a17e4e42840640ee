//! The table of routes.
//!
//! Owns the table that the OpenAPI description is tested against. Must never handle a request
//! itself, except those that no route takes.

use axum::Router;
use axum::extract::Request;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::api::Shared;
use crate::authorization::{UNAUTHENTICATED, authenticate, require};
use crate::caller::Need::{self, AnyToken, Both, Nothing, Right, RightOverAll};
use crate::live_tokens::LiveTokens;
use crate::presence_requests::{feed, one, online};
use crate::problem::{Problem, method_not_allowed, not_found};
use crate::tokens::Right::{Admin, Graph, Metrics, Publish, Sessions};
use crate::{
    backup, batch, bulk, cluster_status, console, explain, health, history, identity, metrics,
    openapi, publish, replace_subscriptions, sessions, stats, subscriptions,
};

/// Path of the metrics.
const METRICS: &str = "/metrics";

/// Path, method in lower case, what it needs of the caller, handler.
pub(crate) type Route<S> = (&'static str, &'static str, Need, MethodRouter<S>);

/// Returns all routes in the order of the documentation.
pub(crate) fn table() -> Vec<Route<Shared>> {
    vec![
        (
            "/v1/publish/{subject}",
            "post",
            Right(Publish),
            post(publish::publish),
        ),
        ("/v1/publish", "post", Right(Publish), post(batch::publish)),
        ("/v1/send/{id}", "post", Right(Publish), post(publish::send)),
        (
            "/v1/subscriptions/{subscriber}/{subject}",
            "put",
            Right(Graph),
            put(subscriptions::add),
        ),
        (
            "/v1/subscriptions/{subscriber}/{subject}",
            "delete",
            Right(Graph),
            delete(subscriptions::remove),
        ),
        (
            "/v1/subscriptions/{subscriber}",
            "put",
            RightOverAll(Graph),
            put(replace_subscriptions::replace),
        ),
        (
            "/v1/subscriptions/{subscriber}",
            "delete",
            RightOverAll(Graph),
            delete(replace_subscriptions::end),
        ),
        (
            "/v1/ids/{id}",
            "delete",
            RightOverAll(Graph),
            delete(replace_subscriptions::forget),
        ),
        ("/v1/subscriptions", "post", Right(Graph), post(bulk::add)),
        (
            "/v1/subscriptions/remove",
            "post",
            Right(Graph),
            post(bulk::remove),
        ),
        (
            "/v1/subscribers/{subject}",
            "get",
            Right(Graph),
            get(subscriptions::subscribers),
        ),
        (
            "/v1/subscriptions/{subscriber}",
            "get",
            RightOverAll(Graph),
            get(subscriptions::subscriptions),
        ),
        (
            "/v1/graph/backup",
            "get",
            RightOverAll(Graph),
            get(backup::backup),
        ),
        (
            "/v1/graph/backup/erlang-ids",
            "get",
            RightOverAll(Graph),
            get(backup::erlang_ids),
        ),
        (
            "/v1/sessions/{id}",
            "get",
            Right(Sessions),
            get(sessions::inspect),
        ),
        (
            "/v1/sessions/{id}",
            "delete",
            Right(Sessions),
            delete(sessions::close),
        ),
        (
            "/v1/tickets",
            "post",
            Right(Sessions),
            post(identity::issue_ticket),
        ),
        (
            "/v1/revocations",
            "post",
            Right(Admin),
            post(identity::revoke),
        ),
        (
            "/v1/history/{subject}",
            "get",
            Right(Sessions),
            get(history::of_subject),
        ),
        ("/v1/cursor", "get", AnyToken, get(history::cursor)),
        (
            "/v1/slowest",
            "get",
            RightOverAll(Sessions),
            get(sessions::slowest),
        ),
        (
            "/v1/explain",
            "get",
            Both(Sessions, Graph),
            get(explain::explain),
        ),
        ("/v1/online", "post", Right(Sessions), post(online::online)),
        ("/v1/presence", "get", Right(Sessions), get(feed::edges)),
        ("/v1/presence/{id}", "get", Right(Sessions), get(one::get)),
        ("/v1/presence/{id}", "put", Right(Sessions), put(one::put)),
        ("/v1/stats", "get", Right(Metrics), get(stats::stats)),
        (
            "/v1/cluster",
            "get",
            Right(Metrics),
            get(cluster_status::cluster),
        ),
        (
            "/v1/cluster/nodes/{node}/drain",
            "post",
            Right(Admin),
            post(cluster_status::drain),
        ),
        ("/metrics", "get", Right(Metrics), get(metrics::metrics)),
        ("/healthz", "get", Nothing, get(health::healthz)),
        ("/livez", "get", Nothing, get(health::healthz)),
        ("/readyz", "get", Nothing, get(health::readyz)),
        ("/openapi.json", "get", AnyToken, get(openapi::openapi)),
    ]
}

/// Returns the whole control API.
pub(crate) fn router(api: Shared) -> Router {
    let tokens = api.tokens.clone();
    let routes = with_needs(table(), &tokens)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api);
    // The page of the console has no data: its requests are authorized, and it asks for the token.
    require_authorization(routes, tokens).merge(console::routes())
}

/// Metrics and health alone.
pub(crate) fn metrics_router(api: Shared, tokens: LiveTokens) -> Router {
    let mut routes = table();
    routes.retain(|(path, ..)| *path == METRICS || UNAUTHENTICATED.contains(path));
    let routes = with_needs(routes, &tokens)
        .fallback(only_metrics)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api);
    require_authorization(routes, tokens)
}

/// Answers unknown paths on the listener for metrics.
async fn only_metrics(request: Request) -> Problem {
    let path = request.uri().path();
    Problem::new(
        StatusCode::NOT_FOUND,
        format!(
            "there is nothing at {path:?}; this listener has {METRICS} and {}",
            UNAUTHENTICATED.join(", ")
        ),
    )
}

/// Makes a router of routes, each of which checks what it needs of the caller.
pub(crate) fn with_needs<S>(table: Vec<Route<S>>, tokens: &LiveTokens) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    table
        .into_iter()
        .fold(Router::new(), |router, (path, _, need, handler)| {
            let check = from_fn_with_state((need, tokens.clone()), require);
            router.route(path, handler.route_layer(check))
        })
}

/// Wraps routes in authentication.
pub(crate) fn require_authorization(routes: Router, tokens: LiveTokens) -> Router {
    routes
        .layer(from_fn_with_state(tokens, authenticate))
        .layer(map_response(declare_types))
}

/// Keeps browsers from guessing the type of an answer. The console is of the same origin as the
/// API, whose answers have payloads and ids of strangers: none of them may become a page or a
/// script.
async fn declare_types(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
