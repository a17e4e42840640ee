//! Which of these ids are online.
//!
//! Must never hold more of a request than the piece at hand and the answer.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use graph::Id;

use super::presence;
use crate::api::Shared;
use crate::caller::Caller;
use crate::items::Shape;
use crate::json::sentence;
use crate::limits::{ONLINE_BODY_BYTES_MAX, ONLINE_ID_BYTES_MAX, ONLINE_IDS_MAX};
use crate::problem::{Answered, Problem};
use crate::query::Query;
use crate::stream::{Stream, Turn, announced};

/// `POST /v1/online`
pub(crate) async fn online(State(api): State<Shared>, request: Request) -> Answered {
    let online = presence(&api)?.online.clone();
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    Query::parse(&head.uri, &[])?;
    let shape = announced(&head.headers)?.unwrap_or(Shape::Either);
    let mut stream = Stream::open(body, shape, ONLINE_ID_BYTES_MAX, None).await?;
    let graph = api.router().graph();
    let mut answer = br#"{"online":["#.to_vec();
    let empty = answer.len();
    let (mut bytes, mut turn) = (0, Turn::default());
    loop {
        while let Some(item) = stream.items.next() {
            let item = item.map_err(|(number, fault)| bad(number, fault))?;
            let number = item.number;
            bytes += item.text.len();
            if number > ONLINE_IDS_MAX || bytes > ONLINE_BODY_BYTES_MAX {
                return Err(Problem::too_large(format!(
                    "the request has more than {ONLINE_IDS_MAX} ids or {ONLINE_BODY_BYTES_MAX} \
                     bytes; ask for fewer in a request"
                )));
            }
            let id: Id =
                serde_json::from_slice(item.text).map_err(|error| bad(number, sentence(&error)))?;
            caller.check_id(&id)?;
            if graph.find(&id).is_some_and(|key| online.is_online(key)) {
                if answer.len() > empty {
                    answer.push(b',');
                }
                // As it was spelt, which is JSON.
                answer.extend_from_slice(item.text);
            }
            if turn.is_over(0) {
                turn.end().await;
            }
        }
        if stream.has_ended() {
            break;
        }
        let more = stream.more().await;
        more.map_err(|error| Problem::bad("body", error))?;
    }
    answer.extend_from_slice(b"]}");
    Ok(([(CONTENT_TYPE, "application/json")], Body::from(answer)).into_response())
}

fn bad(number: u64, why: impl std::fmt::Display) -> Problem {
    Problem::bad(&format!("id {number} of the body"), why)
}
