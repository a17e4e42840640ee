//! Many events on one request, in and out as streams.
//!
//! Owns how a batch is read. Must never hold more of it than its window: a batch has no end that
//! one could count on.

/// The parser of a line.
mod line;
/// A fast parser for ordinary lines.
mod fast_path;
/// One receipt for each line, while the request is being read.
mod line_receipts;
/// The queue of receipts for a client that may read slowly.
mod outbox;
/// One summary for the whole batch.
mod summary;

use axum::extract::{Request, State};
use axum::response::Response;

use crate::api::Shared;
use crate::backend::Backend;
use crate::caller::Caller;
use crate::items::Shape;
use crate::limits::{LINE_FACTOR, LINE_OVERHEAD};
use crate::problem::Problem;
use crate::query::Query;
use crate::stream::{Stream, announced};

#[derive(Debug, Clone, Copy)]
enum Receipts {
    Each,
    Summary,
}

/// `POST /v1/publish`
pub(crate) async fn publish<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    let query = Query::parse(&head.uri, &["receipts"])?;
    let words = [("each", Receipts::Each), ("summary", Receipts::Summary)];
    let receipts = query.word("receipts", &words)?.unwrap_or(Receipts::Each);
    let shape = announced(&head.headers)?.unwrap_or(Shape::Either);
    let line_bytes_max = api.event_bytes_max.saturating_mul(LINE_FACTOR) + LINE_OVERHEAD;
    let stream = Stream::open(body, shape, line_bytes_max).await?;
    match receipts {
        Receipts::Each => Ok(line_receipts::answer(api, stream, caller)),
        Receipts::Summary => summary::answer(&api, stream, caller).await,
    }
}

#[cfg(test)]
mod bench;
