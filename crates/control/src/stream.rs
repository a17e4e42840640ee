//! Streamed request bodies, which are read an item at a time, as fast as items are handled. A
//! client may pause between items without limit, but not within one.
//!
//! Owns line numbers and the list of invalid lines. Must never interpret an item.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use serde::Serialize;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep, timeout};

use crate::body::{broken, poll_chunk, prompt_chunk};
use crate::cloudevents;
use crate::idempotency::Fingerprinting;
use crate::items::{Begun, Fault, Items, Shape};
use crate::limits::{
    DROPPED_WAIT, ERRORS_MAX, ITEM_WAIT, LINES_PER_TURN_MAX, TARGETS_PER_TURN_MAX,
};
use crate::payload::media_type;
use crate::problem::Problem;
use crate::shared::piece::Digest;

/// A body and its items. Lives as long as its request.
#[derive(Debug)]
pub(crate) struct Stream {
    body: Body,
    pub(crate) items: Items,
    ended: bool,
    /// Whether no more items are read.
    closed: bool,
    /// Number of the unfinished item, and the timer for its rest.
    unfinished: Option<(u64, Pin<Box<Sleep>>)>,
    /// Digest of the request so far, if it has an idempotency key.
    request: Option<Fingerprinting>,
}

impl Stream {
    /// Begins to read. A body whose Content-Type is JSON must begin like an array.
    pub(crate) async fn open(
        body: Body,
        shape: Shape,
        item_bytes_max: usize,
        request: Option<Fingerprinting>,
    ) -> Result<Self, Problem> {
        let items = Items::new(shape, item_bytes_max);
        let mut stream = Self {
            body,
            items,
            ended: false,
            closed: false,
            unfinished: None,
            request,
        };
        if shape == Shape::Array {
            loop {
                match stream.items.begun() {
                    Begun::Here => break,
                    Begun::Not => return Err(Problem::bad("body", Fault::NotAnArray)),
                    Begun::Later => stream.more().await.map_err(|e| Problem::bad("body", e))?,
                }
            }
        }
        Ok(stream)
    }

    /// Returns whether the whole body has arrived.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes the digest of the request, which has ended.
    pub(crate) fn take_fingerprint(&mut self) -> Option<Digest> {
        self.request.take().map(Fingerprinting::finish)
    }

    /// Stops reading items. The rest of the body can be [dropped](Self::drop_rest).
    pub(crate) fn close(&mut self) {
        self.items = Items::new(Shape::Lines, 0);
        (self.ended, self.closed) = (true, true);
    }

    /// Reads and drops the rest of a closed body, `bytes_max` of it, so that a client that sends
    /// all of it first can read the answer.
    pub(crate) async fn drop_rest(&mut self, bytes_max: usize) {
        let (mut bytes, is_closed) = (0, self.closed);
        let rest = async {
            while is_closed
                && bytes <= bytes_max
                && let Ok(Some(piece)) = prompt_chunk(&mut self.body).await
            {
                bytes += piece.len();
            }
        };
        // After this time the connection is closed.
        let _ = timeout(DROPPED_WAIT, rest).await;
    }

    /// Waits for the next piece of the body, or for its end. An item that has begun may take
    /// [`ITEM_WAIT`].
    pub(crate) async fn more(&mut self) -> Result<(), String> {
        poll_fn(|context| self.poll_more(context)).await
    }

    /// Polls for the result of [`Self::more`].
    pub(crate) fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        match poll_chunk(&mut self.body, context) {
            Poll::Ready(piece) => Poll::Ready(self.take(piece)),
            Poll::Pending => self.poll_late(context).map(Err),
        }
    }

    /// Returns whether the time of the unfinished item is over.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<String> {
        let number = self.items.number();
        if !self.items.is_unfinished() {
            self.unfinished = None;
            return Poll::Pending;
        }
        let unfinished = self.unfinished.take().filter(|(of, _)| *of == number);
        let (_, late) = self
            .unfinished
            .insert(unfinished.unwrap_or_else(|| (number, Box::pin(sleep(ITEM_WAIT)))));
        ready!(late.as_mut().poll(context));
        self.ended = true;
        Poll::Ready(format!(
            "line {} was not complete after {} s; send each line at once",
            number + 1,
            ITEM_WAIT.as_secs()
        ))
    }

    fn take(&mut self, piece: Option<Result<Bytes, axum::Error>>) -> Result<(), String> {
        match piece {
            Some(Ok(piece)) => {
                if let Some(request) = &mut self.request {
                    request.update(&piece);
                }
                self.items.feed(piece);
            }
            Some(Err(error)) => {
                self.ended = true;
                return Err(broken(&error));
            }
            None => {
                self.ended = true;
                self.items.end();
            }
        }
        Ok(())
    }
}

/// Returns the shape by Content-Type; `None` for plain text.
pub(crate) fn announced(headers: &HeaderMap) -> Result<Option<Shape>, Problem> {
    let media_type = media_type(headers);
    match &*media_type {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => {
            Ok(Some(Shape::Lines))
        }
        "application/json" | cloudevents::BATCH => Ok(Some(Shape::Array)),
        "" | "application/x-www-form-urlencoded" => Ok(Some(Shape::Either)),
        "text/plain" => Ok(None),
        other => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "the Content-Type is {other:?}; use application/x-ndjson for lines, or \
                 application/json for an array"
            ),
        )),
    }
}

/// Work of a thread since it last yielded to other requests.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    lines: usize,
    targets: u64,
}

impl Turn {
    /// Counts a line that was handled. Returns whether the thread should yield now.
    pub(crate) fn is_over(&mut self, targets: u64) -> bool {
        self.lines += 1;
        self.targets += targets;
        self.lines >= LINES_PER_TURN_MAX || self.targets >= TARGETS_PER_TURN_MAX
    }

    /// Yields to other requests.
    pub(crate) async fn end(&mut self) {
        *self = Self::default();
        yield_now().await;
    }
}

/// An invalid line.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    pub(crate) line: u64,
    pub(crate) error: String,
}

/// Invalid lines of a body: all are counted, the first are listed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Failures {
    pub(crate) failed: u64,
    pub(crate) errors: Vec<Failure>,
}

impl Failures {
    pub(crate) fn add(&mut self, line: u64, error: impl Display) {
        self.failed += 1;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(Failure {
                line,
                error: error.to_string(),
            });
        }
    }
}
