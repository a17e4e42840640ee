//! A receipt for each line of a batch, in the order of the lines, while the request is being read.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use replication::{AppendError, CommandResult};
use serde::Serialize;

use super::{Line, Outcome, Pipeline, Settled, Step};
use crate::api::Shared;
use crate::batch::lines::Lines;
use crate::batch::outbox::{Left, Outbox, Room, late, outbox};
use crate::json::push_line;
use crate::limits::ANSWER_CHUNK_BYTES;
use crate::metrics::published::Counting;
use crate::receipt::{Receipt, When};
use crate::replicated::{Replicated, sentence};
use crate::shared::piece::Digest;
use crate::stream::Failure;

/// Begins to answer a batch.
pub(crate) fn answer(
    api: Shared,
    replicated: Replicated,
    input: Lines,
    key: Option<Digest>,
) -> Response {
    let (outbox, answer) = outbox(api.limits.unread_bytes_max);
    // A task of its own: the connection only carries what is there to be read.
    tokio::spawn(async move {
        let _pending = api.published.pending();
        let mut batch = Batch {
            pipeline: Pipeline::new(&api, &*replicated.log, input, key),
            lines: Vec::new(),
            counting: api.published.counting(),
        };
        if batch.run(&outbox).await.is_ok() {
            let most = api.limits.dropped_bytes_max;
            batch.pipeline.input.stream.drop_rest(most).await;
            outbox.end();
        }
    });
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::new(answer)).into_response()
}

/// A batch under way.
struct Batch<'a> {
    pipeline: Pipeline<'a>,
    /// Receipts that have not been put into the outbox.
    lines: Vec<u8>,
    counting: Counting<'a>,
}

impl Batch<'_> {
    async fn run(&mut self, outbox: &Outbox) -> Result<(), Left> {
        loop {
            self.pipeline.send_all().await;
            if self.pipeline.is_over() {
                return Ok(());
            }
            match self.pipeline.step(|context| outbox.is_left(context)).await {
                Step::Left => return Err(Left),
                Step::Read(Ok(())) => {}
                Step::Read(Err(error)) => {
                    let line = self.pipeline.input.stream.items.number() + 1;
                    let error = format!("no more lines are read: {error}");
                    self.pipeline.fail(line, error);
                }
                Step::Settled(settled) => self.settle(settled, outbox).await?,
            }
        }
    }

    /// Writes the receipts of lines that are through.
    async fn settle(&mut self, settled: Settled, outbox: &Outbox) -> Result<(), Left> {
        let Settled { lines, outcome, .. } = settled;
        let mut index = 0;
        for line in lines {
            match line {
                Line::Failure(failure) => self.write(&failure),
                Line::Event(line) => {
                    self.event(line, index, &outcome);
                    index += 1;
                }
            }
            if self.lines.len() >= ANSWER_CHUNK_BYTES {
                self.hand_over(outbox).await?;
            }
        }
        self.counting.hand_over();
        self.hand_over(outbox).await
    }

    /// Hands receipts to the client, and waits until there is room for more. If it does not read,
    /// no more lines are taken.
    async fn hand_over(&mut self, outbox: &Outbox) -> Result<(), Left> {
        outbox.put(&mut self.lines);
        if outbox.room().await? == Room::Late {
            let line = self.pipeline.input.stream.items.number() + 1;
            self.pipeline.input.stream.close();
            self.pipeline.fail(line, late());
        }
        Ok(())
    }

    /// Writes the receipt of an event.
    fn event(&mut self, line: u64, index: usize, outcome: &Outcome) {
        let error = match outcome {
            Err(error) => sentence(*error, false),
            Ok(applied) => {
                let result = applied.results.get(index).unwrap_or(&CommandResult::None);
                let router = self.pipeline.api.router();
                if let Some(receipt) = Receipt::of_nodes(router, applied, result, When::Full) {
                    self.counting.add(receipt.online());
                    return self.write(&receipt);
                }
                sentence(AppendError::Unknown, false)
            }
        };
        self.write(&Failure { line, error });
    }

    fn write(&mut self, line: &impl Serialize) {
        push_line(&mut self.lines, line);
    }
}
