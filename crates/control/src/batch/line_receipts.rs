//! A receipt for each line of a batch, in the order of the lines, while the request is being read.
//!
//! Must never answer a line before its workers, nor read on while its window is full.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use history::Reach;
use router::{Accepted, Counts, Tally};
use serde::Serialize;
use tokio::time::timeout;

use super::lines::Lines;
use super::outbox::{Left, Outbox, Room, late, outbox};
use crate::api::{Api, Shared};
use crate::json::push_line;
use crate::limits::{ANSWER_CHUNK_BYTES, Limits, RECEIPT_WAIT, WINDOW_EVENTS_MAX};
use crate::metrics::published::Counting;
use crate::receipt::{Receipt, unsettled};
use crate::stream::{Failure, Turn};

/// Begins to answer a batch.
pub(super) fn answer(api: Shared, input: Lines) -> Response {
    let (outbox, answer) = outbox(api.limits.unread_bytes_max);
    // A task of its own: the connection only carries what is there to be read.
    tokio::spawn(async move {
        let _pending = api.published.pending();
        let mut batch = Batch {
            api: &api,
            input,
            window: Window::default(),
            spare: Tally::new(),
            lines: Vec::new(),
            counting: api.published.counting(),
        };
        if batch.run(&outbox).await.is_ok() {
            batch
                .input
                .stream
                .drop_rest(api.limits.dropped_bytes_max)
                .await;
            outbox.end();
        }
    });
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::new(answer)).into_response()
}

/// A batch under way.
struct Batch<'a> {
    api: &'a Api,
    input: Lines,
    window: Window,
    /// The tally of the next event: one that had no delivery serves again.
    spare: Arc<Tally>,
    /// Receipts that have not been put into the outbox.
    lines: Vec<u8>,
    counting: Counting<'a>,
}

/// What a batch waited for.
enum Step {
    /// A piece of the body or its end; whether it broke off.
    Read(Result<(), String>),
    /// The first of the waiting events has its receipt.
    Settled,
    /// It will not have one.
    Late,
    /// The client is gone.
    Left,
}

impl Batch<'_> {
    async fn run(&mut self, outbox: &Outbox) -> Result<(), Left> {
        let mut turn = Turn::default();
        loop {
            // Whether the piece of the body at hand may have another line.
            let mut at_hand = true;
            while at_hand && !self.window.is_full(&self.api.limits) {
                let Some(online) = self.line() else {
                    at_hand = false;
                    break;
                };
                if turn.is_over(online) {
                    self.settle();
                    self.counting.hand_over();
                    if self.lines.len() >= ANSWER_CHUNK_BYTES {
                        self.hand_over(outbox).await?;
                    }
                    turn.end().await;
                }
            }
            self.settle();
            self.hand_over(outbox).await?;
            if at_hand && !self.window.is_full(&self.api.limits) {
                continue;
            }
            if !at_hand && self.window.is_empty() && self.input.stream.has_ended() {
                return Ok(());
            }
            self.counting.hand_over();
            match self.step(!at_hand, outbox).await {
                Step::Left => return Err(Left),
                Step::Read(Ok(())) | Step::Settled => {}
                Step::Read(Err(error)) => {
                    let error = format!("no more lines are read: {error}");
                    self.fail(self.input.stream.items.number() + 1, error);
                }
                Step::Late => self.give_up(),
            }
        }
    }

    /// Hands receipts to the client, and waits until there is room for more. If it does not read,
    /// no more lines are taken.
    async fn hand_over(&mut self, outbox: &Outbox) -> Result<(), Left> {
        outbox.put(&mut self.lines);
        if outbox.room().await? == Room::Late {
            let line = self.input.stream.items.number() + 1;
            self.input.stream.close();
            self.fail(line, late());
            // The batch may end right here.
            outbox.put(&mut self.lines);
        }
        Ok(())
    }

    /// Works off the next line at hand: how many ids are online for it.
    fn line(&mut self) -> Option<u64> {
        let (line, event) = self.input.next()?;
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                self.fail(line, error);
                return Some(0);
            }
        };
        let bytes = event.payload.bytes().len();
        let router = self.api.router();
        let reach = Reach::Subscribers;
        let accepted = router.deliver(event, reach, self.input.is_stored, &self.spare);
        self.counting.add(accepted.audience.online);
        // With nobody online there is no delivery, and the tally serves again, unless it waits for
        // the disk.
        let waits = accepted.audience.online != 0 || router.has_log();
        let tally = waits.then(|| std::mem::take(&mut self.spare));
        if tally.is_none() && self.window.is_empty() {
            self.receipt(accepted, Counts::default(), 0);
        } else {
            self.window.push(Waiting::Receipt {
                line,
                accepted,
                tally,
                bytes,
            });
        }
        Some(accepted.audience.online)
    }

    /// Puts a bad line at its place.
    fn fail(&mut self, line: u64, error: String) {
        if self.window.is_empty() {
            self.write(&Failure { line, error });
        } else {
            self.window.push(Waiting::Failure(Failure { line, error }));
        }
    }

    /// Writes the receipts that are due.
    fn settle(&mut self) {
        while let Some(waiting) = self.window.pop_settled() {
            match waiting {
                Waiting::Receipt {
                    accepted, tally, ..
                } => {
                    let (counts, unstored) = match tally {
                        Some(tally) => (tally.counts(), tally.unstored()),
                        None => (Counts::default(), 0),
                    };
                    self.receipt(accepted, counts, unstored);
                }
                Waiting::Failure(failure) => self.write(&failure),
            }
        }
    }

    /// Writes what is known of the first of the waiting events.
    fn give_up(&mut self) {
        if let Some(Waiting::Receipt {
            line,
            accepted,
            tally: Some(tally),
            ..
        }) = self.window.pop()
        {
            let id = self.api.router().event_id(accepted.position);
            let error = format!("event {id}: {}", unsettled(&tally));
            self.write(&Failure { line, error });
        }
    }

    fn receipt(&mut self, accepted: Accepted, counts: Counts, unstored: u64) {
        let api = self.api;
        self.write(&Receipt::full(api.router(), accepted, counts, unstored));
    }

    fn write(&mut self, line: &impl Serialize) {
        push_line(&mut self.lines, line);
    }

    /// Waits for the first receipt and, if no line is at hand, for more of the body.
    async fn step(&mut self, starved: bool, outbox: &Outbox) -> Step {
        let mut done = self.window.first().map(Tally::done);
        let read_on = starved && !self.input.stream.has_ended();
        let stream = &mut self.input.stream;
        let waits = done.is_some();
        let step = poll_fn(|context| {
            if read_on && let Poll::Ready(read) = stream.poll_more(context) {
                return Poll::Ready(Step::Read(read));
            }
            if outbox.is_left(context) {
                return Poll::Ready(Step::Left);
            }
            match &mut done {
                Some(done) => Pin::new(done).poll(context).map(|_| Step::Settled),
                None => Poll::Pending,
            }
        });
        match waits {
            true => timeout(RECEIPT_WAIT, step).await.unwrap_or(Step::Late),
            false => step.await,
        }
    }
}

/// A line whose answer has to wait for its workers, or for the lines before it.
enum Waiting {
    /// Without a tally when no session was online, and there is no history on disk.
    Receipt {
        line: u64,
        accepted: Accepted,
        tally: Option<Arc<Tally>>,
        bytes: usize,
    },
    Failure(Failure),
}

impl Waiting {
    fn weight(&self) -> (u64, usize) {
        match self {
            Self::Receipt {
                accepted, bytes, ..
            } => (accepted.audience.online, *bytes),
            Self::Failure(failure) => (0, failure.error.len()),
        }
    }
}

/// Lines that wait, in their order.
#[derive(Default)]
struct Window {
    waiting: VecDeque<Waiting>,
    targets: u64,
    bytes: usize,
}

impl Window {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.waiting.len() >= WINDOW_EVENTS_MAX
            || self.targets >= limits.window_targets_max
            || self.bytes >= limits.window_bytes_max
    }

    fn push(&mut self, waiting: Waiting) {
        let (targets, bytes) = waiting.weight();
        self.targets += targets;
        self.bytes += bytes;
        self.waiting.push_back(waiting);
    }

    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        let (targets, bytes) = waiting.weight();
        self.targets -= targets;
        self.bytes -= bytes;
        Some(waiting)
    }

    /// Returns the first line, if nothing of its event is pending.
    fn pop_settled(&mut self) -> Option<Waiting> {
        match self.waiting.front()? {
            Waiting::Receipt {
                tally: Some(tally), ..
            } if tally.pending() != 0 => None,
            _ => self.pop(),
        }
    }

    /// Returns the tally of the first line.
    fn first(&self) -> Option<&Arc<Tally>> {
        match self.waiting.front()? {
            Waiting::Receipt { tally, .. } => tally.as_ref(),
            Waiting::Failure(_) => None,
        }
    }
}
