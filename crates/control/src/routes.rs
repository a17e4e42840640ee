//! The table of routes.
//!
//! Owns the table that the OpenAPI description is tested against. Must never handle a request
//! itself, except those that no route takes.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::api::Shared;
use crate::authorization::{UNAUTHENTICATED, authenticate, require};
use crate::caller::Need::{self, AnyToken, Both, Nothing, Right, RightOverAll};
use crate::live_tokens::LiveTokens;
use crate::presence_requests::{self as presence, feed};
use crate::problem::{Problem, method_not_allowed, not_found};
use crate::tokens::Right::{Admin, Graph, Metrics, Publish, Sessions};
use crate::{
    backup, batch, bulk, cluster_status, console, explain, health, history, identity, metrics,
    openapi, publish, sessions, stats, subscriptions,
};

/// Path of the metrics.
const METRICS: &str = "/metrics";

/// Path, method in lower case, what it needs of the caller, handler.
pub(crate) type Route<S> = (&'static str, &'static str, Need, MethodRouter<S>);

/// A path, and the routes that it has.
pub(crate) struct At<S> {
    path: &'static str,
    pub(crate) routes: Vec<Route<S>>,
}

/// Begins the routes of a path.
pub(crate) const fn at<S>(path: &'static str) -> At<S> {
    let routes = Vec::new();
    At { path, routes }
}

impl<S: Clone + Send + Sync + 'static> At<S> {
    pub(crate) fn get<T: 'static>(self, need: Need, handler: impl Handler<T, S>) -> Self {
        self.with("get", need, get(handler))
    }

    fn post<T: 'static>(self, need: Need, handler: impl Handler<T, S>) -> Self {
        self.with("post", need, post(handler))
    }

    fn put<T: 'static>(self, need: Need, handler: impl Handler<T, S>) -> Self {
        self.with("put", need, put(handler))
    }

    fn delete<T: 'static>(self, need: Need, handler: impl Handler<T, S>) -> Self {
        self.with("delete", need, delete(handler))
    }

    fn with(mut self, method: &'static str, need: Need, handler: MethodRouter<S>) -> Self {
        self.routes.push((self.path, method, need, handler));
        self
    }
}

/// Returns all routes in the order of the documentation.
pub(crate) fn table() -> Vec<Route<Shared>> {
    let table = [
        at("/v1/publish/{subject}").post(Right(Publish), publish::publish),
        at("/v1/publish").post(Right(Publish), batch::publish),
        at("/v1/send/{id}").post(Right(Publish), publish::send),
        at("/v1/subscriptions/{subscriber}/{subject}")
            .put(Right(Graph), subscriptions::add)
            .delete(Right(Graph), subscriptions::remove),
        at("/v1/subscriptions/{subscriber}")
            .put(RightOverAll(Graph), subscriptions::replace)
            .delete(RightOverAll(Graph), subscriptions::end),
        at("/v1/ids/{id}").delete(RightOverAll(Graph), subscriptions::forget),
        at("/v1/subscriptions").post(Right(Graph), bulk::add),
        at("/v1/subscriptions/remove").post(Right(Graph), bulk::remove),
        at("/v1/subscribers/{subject}").get(Right(Graph), subscriptions::subscribers),
        at("/v1/subscriptions/{subscriber}").get(RightOverAll(Graph), subscriptions::subscriptions),
        at("/v1/graph/backup").get(RightOverAll(Graph), backup::backup),
        at("/v1/graph/backup/erlang-ids").get(RightOverAll(Graph), backup::erlang_ids),
        at("/v1/sessions/{id}")
            .get(Right(Sessions), sessions::inspect)
            .delete(Right(Sessions), sessions::close),
        at("/v1/tickets").post(Right(Sessions), identity::issue_ticket),
        at("/v1/revocations").post(Right(Admin), identity::revoke),
        at("/v1/history/{subject}").get(Right(Sessions), history::of_subject),
        at("/v1/cursor").get(AnyToken, history::cursor),
        at("/v1/slowest").get(RightOverAll(Sessions), sessions::slowest),
        at("/v1/explain").get(Both(Sessions, Graph), explain::explain),
        at("/v1/online").post(Right(Sessions), presence::online),
        at("/v1/presence").get(Right(Sessions), feed::edges),
        at("/v1/presence/{id}")
            .get(Right(Sessions), presence::get)
            .put(Right(Sessions), presence::put),
        at("/v1/stats").get(Right(Metrics), stats::stats),
        at("/v1/cluster").get(Right(Metrics), cluster_status::cluster),
        at("/v1/cluster/nodes/{node}/drain").post(Right(Admin), cluster_status::drain),
        at("/metrics").get(Right(Metrics), metrics::metrics),
        at("/healthz").get(Nothing, health::healthz),
        at("/livez").get(Nothing, health::healthz),
        at("/readyz").get(Nothing, health::readyz),
        at("/openapi.json").get(AnyToken, openapi::openapi),
    ];
    table.into_iter().flat_map(|at| at.routes).collect()
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
