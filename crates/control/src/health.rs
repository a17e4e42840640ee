//! Health and readiness.
//!
//! Must never ask a worker anything: a probe has to answer when they are busy.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::api::Shared;
use crate::problem::{Answered, Problem, ProblemType, in_json};

/// `GET /healthz` and `GET /livez`: the process answers.
pub(crate) async fn healthz() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// `GET /readyz`: new clients and publishers are welcome.
pub(crate) async fn readyz(State(api): State<Shared>) -> Answered {
    let replicated = api.replicated.as_ref();
    if let Some(why) = replicated.and_then(|replicated| replicated.log.status().not_ready) {
        return Err(Problem::unavailable(String::from(why)).of_type(ProblemType::NotReady));
    }
    // The node may have caught up with the log a moment ago.
    if api.server.is_paused() {
        let why = "this node takes no clients yet; try again in a moment";
        return Err(Problem::unavailable(why).of_type(ProblemType::NotReady));
    }
    ready(api.server.is_draining())
}

/// Returns whether new clients are welcome, as far as this process alone is concerned.
pub(crate) fn ready(draining: bool) -> Answered {
    match draining {
        false => in_json(json!({ "status": "ready" })),
        true => Err(
            Problem::unavailable("the server is draining; use another server")
                .of_type(ProblemType::NotReady),
        ),
    }
}
