//! Many events on one request, in and out as streams.
//!
//! Owns how a batch is read. Must never hold more of it than its window: a batch has no end that
//! one could count on.

/// The parser of a line.
mod line;
/// A fast parser for ordinary lines.
mod fast_path;
/// The lines of a batch.
mod lines;
/// One receipt for each line, while the request is being read.
mod line_receipts;
/// The queue of receipts for a client that may read slowly.
mod outbox;
/// One summary for the whole batch.
mod summary;
/// A batch through the log of a cluster.
mod replicated;

use axum::body::Body;
use axum::extract::{Request, State};

use crate::api::Shared;
use crate::body::prompt_chunk;
use crate::caller::Caller;
use crate::idempotency::{self, Begun, Fingerprinting};
use crate::items::Shape;
use crate::limits::{LINE_FACTOR, LINE_OVERHEAD};
use crate::problem::{Answered, Problem};
use crate::publish::{self, is_stored, target};
use crate::query::Query;
use crate::shared::piece::Digest;
use crate::stream::{Stream, announced};
use lines::Lines;

#[derive(Debug, Clone, Copy)]
enum Receipts {
    Each,
    Summary,
}

/// `POST /v1/publish`
pub(crate) async fn publish(State(api): State<Shared>, request: Request) -> Answered {
    if publish::is_one_cloud_event(request.headers()) {
        return publish::cloud_event(&api, request).await;
    }
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    let query = Query::parse(&head.uri, &["receipts", "history"])?;
    let is_stored = is_stored(&query)?;
    let words = [("each", Receipts::Each), ("summary", Receipts::Summary)];
    let receipts = query.word("receipts", &words)?.unwrap_or(Receipts::Each);
    let shape = announced(&head.headers)?.unwrap_or(Shape::Either);
    let line_bytes_max = line_bytes_max(api.event_bytes_max);
    let lines = |stream| Lines {
        stream,
        caller: caller.clone(),
        event_bytes_max: api.event_bytes_max,
        is_stored,
    };
    if let Some(replicated) = api.replicated.clone() {
        let key = idempotency::shared_name(&head.headers, &caller, api.router())?;
        if key.is_some() && matches!(receipts, Receipts::Each) {
            return Err(no_single_receipts());
        }
        let request = || Fingerprinting::new(&target(&head.uri), &head.headers);
        if let Some(key) = key
            && let Some(answer) = replicated.shared.answer(&key)
        {
            let request = fingerprint(body, request()).await?;
            return answer.again(request);
        }
        let stream = Stream::open(body, shape, line_bytes_max, key.map(|_| request())).await?;
        let lines = lines(stream);
        return match receipts {
            Receipts::Each => Ok(replicated::each::answer(api, replicated, lines, key)),
            Receipts::Summary => replicated::summary::answer(&api, &replicated, lines, key).await,
        };
    }
    let first = match api.keys.begin(&head.headers, &caller, api.router())? {
        None => None,
        Some(_) if matches!(receipts, Receipts::Each) => {
            return Err(no_single_receipts());
        }
        Some(begun) => {
            let request = Fingerprinting::new(&target(&head.uri), &head.headers);
            match begun {
                Begun::First(first) => Some((first, request)),
                Begun::Again(stored) => {
                    let request = fingerprint(body, request).await?;
                    return stored.again(request);
                }
            }
        }
    };
    let (first, request) = first.unzip();
    let lines = lines(Stream::open(body, shape, line_bytes_max, request).await?);
    match receipts {
        Receipts::Each => Ok(line_receipts::answer(api, lines)),
        Receipts::Summary => summary::answer(&api, lines, first).await,
    }
}

/// Returns the most bytes of a line.
const fn line_bytes_max(event_bytes_max: usize) -> usize {
    event_bytes_max.saturating_mul(LINE_FACTOR) + LINE_OVERHEAD
}

/// Returns the answer to a request with a key that wants a receipt for each line.
fn no_single_receipts() -> Problem {
    Problem::bad(
        "header Idempotency-Key",
        "receipts of single events are not kept; add ?receipts=summary, or send no key",
    )
}

/// Reads a body that is not published again.
async fn fingerprint(mut body: Body, mut request: Fingerprinting) -> Result<Digest, Problem> {
    while let Some(piece) = prompt_chunk(&mut body).await? {
        request.update(&piece);
    }
    Ok(request.finish())
}

#[cfg(test)]
mod tests;
