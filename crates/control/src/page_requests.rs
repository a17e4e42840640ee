//! Requests that the page makes through the public listener.
//!
//! Owns which part of the API a page may use. Must never take a worker's time: it hands the request
//! to the threads of the control API and returns.

use std::sync::Weak;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use server::{PageHandler, PageRequest, PageResponse};
use tokio::runtime::Handle;
use tower::ServiceExt;

use crate::api::{Api, Shared};
use crate::caller::Caller;
use crate::problem::{PROBLEM_JSON, Problem, method_not_allowed, not_found};
use crate::{body, publish, subscriptions};

/// Relayed requests, run on the threads behind `threads` for as long as `api` lives.
pub(crate) fn handler(threads: Handle, api: Weak<Api>) -> Box<PageHandler> {
    Box::new(move |request, answer| {
        let Some(api) = api.upgrade() else {
            let gone = Problem::unavailable("the control API has stopped; reload the page");
            return answer(immediate(gone));
        };
        let Ok(permit) = api.relayed.clone().try_acquire_owned() else {
            let busy =
                Problem::unavailable("too many pages sent requests at once; try again in a second");
            return answer(immediate(busy));
        };
        threads.spawn(async move {
            let response = run(api, request).await;
            drop(permit);
            answer(response);
        });
    })
}

/// Returns what a page may do: no bodies, no sessions, no bulk.
fn router(api: Shared) -> Router {
    let edge = put(subscriptions::add).delete(subscriptions::remove);
    Router::new()
        .route("/v1/publish/{subject}", post(publish::relayed))
        .route("/v1/subscriptions/{subscriber}/{subject}", edge)
        .route(
            "/v1/subscriptions/{subscriber}",
            get(subscriptions::subscriptions),
        )
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(api)
}

async fn run(api: Shared, relayed: PageRequest) -> PageResponse {
    let request = Request::builder()
        .method(relayed.method)
        .uri(&relayed.path_and_query)
        // The page works only where no token is needed.
        .extension(Caller::new(None))
        .body(Body::empty());
    let response = match request {
        Ok(request) => router(api)
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {}),
        Err(error) => Problem::bad("path", error).into_response(),
    };
    whole(response).await
}

async fn whole(response: Response) -> PageResponse {
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(piece)) = body::chunk(&mut body).await {
        bytes.extend_from_slice(&piece);
    }
    let problem = head
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind == PROBLEM_JSON);
    PageResponse {
        status: head.status.as_u16(),
        content_type: if problem {
            PROBLEM_JSON
        } else {
            "application/json"
        },
        body: bytes,
    }
}

/// Returns an answer that needs no thread.
fn immediate(problem: Problem) -> PageResponse {
    PageResponse {
        status: problem.status().as_u16(),
        content_type: PROBLEM_JSON,
        body: problem.to_json(),
    }
}
