//! One receipt for all events of a batch.

use std::mem;

use axum::http::StatusCode;
use replication::{AppendError, CommandResult};
use serde::Serialize;

use super::{Line, Pipeline, Settled, Step};
use crate::api::Api;
use crate::batch::lines::Lines;
use crate::idempotency::{self, of_another};
use crate::metrics::published::Counting;
use crate::problem::{Answered, Problem};
use crate::receipt::is_zero;
use crate::replicated::{Replicated, sentence};
use crate::shared::piece::Digest;
use crate::stream::Failures;

/// Publishes a batch and sums its receipts.
pub(crate) async fn answer(
    api: &Api,
    replicated: &Replicated,
    input: Lines,
    key: Option<Digest>,
) -> Answered {
    let _pending = api.published.pending();
    let mut batch = Batch {
        pipeline: Pipeline::new(api, &*replicated.log, input, key),
        replicated,
        summary: Summary::default(),
        end: None,
        counting: api.published.counting(),
    };
    let summary = batch.run().await?;
    let summary = serde_json::to_vec(&summary).expect("numbers and strings are JSON");
    let request = batch.pipeline.input.stream.take_fingerprint();
    if let Some((key, request)) = batch.pipeline.key.zip(request) {
        replicated.share_answer(key, request, StatusCode::OK, &summary);
    }
    Ok(idempotency::answer(StatusCode::OK, summary.into()))
}

/// A batch under way.
struct Batch<'a> {
    pipeline: Pipeline<'a>,
    replicated: &'a Replicated,
    summary: Summary,
    /// Why no more lines are taken.
    end: Option<End>,
    counting: Counting<'a>,
}

/// Why a batch ends before its last line.
#[derive(Debug)]
enum End {
    /// The log has not taken the events from this line on.
    Refused { line: u64, error: AppendError },
    /// The body broke off after this line.
    BrokenOff { line: u64, error: String },
    /// An earlier request with the key has published something else from this line on.
    OfAnother { line: u64 },
}

impl Batch<'_> {
    async fn run(&mut self) -> Result<Summary, Problem> {
        loop {
            // What is on its way is waited for, so that all that is accepted is counted.
            let is_over = match &self.end {
                None => {
                    self.pipeline.send_all().await;
                    self.pipeline.is_over()
                }
                Some(_) => self.pipeline.sent.is_empty(),
            };
            if is_over {
                break;
            }
            self.counting.hand_over();
            match self.pipeline.step(|_| false).await {
                Step::Read(Ok(())) | Step::Left => {}
                Step::Read(Err(error)) => {
                    let line = self.pipeline.input.stream.items.number();
                    self.end.get_or_insert(End::BrokenOff { line, error });
                }
                Step::Settled(settled) => self.add(settled),
            }
        }
        match self.end.take() {
            None => Ok(mem::take(&mut self.summary)),
            Some(end) => Err(self.problem(end)),
        }
    }

    /// Adds what became of the lines of a chunk.
    fn add(&mut self, settled: Settled) {
        let Settled {
            lines,
            part,
            outcome,
        } = settled;
        let numbers = lines.iter().find_map(|line| match line {
            Line::Event(number) => Some(*number),
            Line::Failure(_) => None,
        });
        for line in lines {
            if let Line::Failure(failure) = line {
                self.summary.failures.add(failure.line, failure.error);
            }
        }
        let Some(line) = numbers else {
            return;
        };
        let applied = match outcome {
            Ok(applied) => applied,
            Err(error) => {
                self.end.get_or_insert(End::Refused { line, error });
                return;
            }
        };
        if let Some((key, part)) = self.pipeline.key.zip(part)
            && let Some(claim) = self.replicated.shared.claim(key, part.number)
            && claim.content != part.content
        {
            self.end.get_or_insert(End::OfAnother { line });
            return;
        }
        for result in &applied.results {
            if let Some(online) = self.summary.add(result) {
                self.counting.add(online);
            }
        }
        self.summary.add_nodes(applied.nodes, applied.missing);
    }

    fn problem(&self, end: End) -> Problem {
        let events = self.summary.events;
        match end {
            End::BrokenOff { line, error } => {
                let error = format!("after line {line}, with {events} events accepted: {error}");
                Problem::bad("body", error)
            }
            End::OfAnother { line } => of_another().saying(format!(
                "the first request with this Idempotency-Key published something else from line \
                 {line} on; with {events} events accepted now, use a key of its own for each \
                 request"
            )),
            End::Refused { line, error } => {
                let why = sentence(error, self.pipeline.key.is_some());
                Problem::from(error).saying(format!(
                    "the batch stopped at line {line}, with {events} events accepted: {why}"
                ))
            }
        }
    }
}

/// Sums over all events and nodes.
#[derive(Debug, Default, Serialize)]
struct Summary {
    events: u64,
    /// Events that an earlier request with the key has published, whose receipts are not known.
    #[serde(skip_serializing_if = "is_zero")]
    repeated: u64,
    subscribers: u64,
    online: u64,
    written: u64,
    queued: u64,
    shed: u64,
    /// Nodes whose counts every event has.
    nodes: u32,
    /// Names of the nodes whose counts some events lack.
    missing: Vec<Box<str>>,
    #[serde(flatten)]
    failures: Failures,
}

impl Summary {
    /// Adds the result of a command. Returns how many ids were online, if it is an event.
    fn add(&mut self, result: &CommandResult) -> Option<u64> {
        let &CommandResult::Event {
            subscribers,
            online,
            written,
            queued,
            shed,
            ..
        } = result
        else {
            self.repeated += 1;
            return None;
        };
        self.events += 1;
        self.subscribers += subscribers;
        self.online += online;
        self.written += written;
        self.queued += queued;
        self.shed += shed;
        Some(online)
    }

    fn add_nodes(&mut self, nodes: u32, missing: Vec<Box<str>>) {
        self.nodes = match self.nodes {
            0 => nodes,
            least => least.min(nodes),
        };
        for name in missing {
            if !self.missing.contains(&name) {
                self.missing.push(name);
            }
        }
    }
}
