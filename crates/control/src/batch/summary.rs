//! One receipt for all events of a batch.
//!
//! The cheapest way to publish: no tally, no receipt and no answer of its own for an event.

use std::sync::Arc;

use axum::http::StatusCode;
use router::{Audience, Counts, Tally};
use serde::Serialize;

use super::lines::Lines;
use crate::api::Api;
use crate::idempotency::{self, First};
use crate::limits::{Limits, WINDOW_EVENTS_MAX};
use crate::metrics::published::Counting;
use crate::problem::{Answered, Problem};
use crate::receipt::{is_zero, settled, unsettled};
use crate::stream::{Failures, Turn};

/// Publishes a batch and sums its receipts.
pub(super) async fn answer(api: &Api, input: Lines, first: Option<First>) -> Answered {
    let _pending = api.published.pending();
    let mut batch = Batch {
        api,
        input,
        first,
        sums: Sums::default(),
        failures: Failures::default(),
        events: router::Batch::default(),
        window: Window::default(),
        counting: api.published.counting(),
    };
    batch.run().await?;
    let request = batch.input.stream.take_fingerprint();
    let Batch {
        sums,
        failures,
        window,
        first,
        ..
    } = batch;
    let Counts {
        written,
        queued,
        shed,
    } = window.counts();
    let summary = Summary {
        sums,
        written,
        queued,
        shed,
        unstored: window.unstored(),
        failures,
    };
    let summary = serde_json::to_vec(&summary).expect("numbers and strings are JSON");
    if let Some((mut first, request)) = first.zip(request) {
        first.answer(request, StatusCode::OK, summary.clone());
    }
    Ok(idempotency::answer(StatusCode::OK, summary.into()))
}

/// A batch under way.
struct Batch<'a> {
    api: &'a Api,
    input: Lines,
    /// If the request has an idempotency key.
    first: Option<First>,
    sums: Sums,
    failures: Failures,
    /// Working memory of the router.
    events: router::Batch,
    window: Window,
    counting: Counting<'a>,
}

/// Why a batch publishes no more lines for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// No line is at hand.
    Starved,
    /// As many events as may wait for their workers are on their way.
    WindowFull {
        /// Other requests should have their turn then.
        is_over: bool,
    },
    /// Other requests should have their turn.
    TurnOver,
}

impl Batch<'_> {
    async fn run(&mut self) -> Result<(), Problem> {
        let mut turn = Turn::default();
        loop {
            match self.publish(&mut turn) {
                Pause::WindowFull { is_over } => {
                    let turned = self.window.turn().await;
                    turned.map_err(|tally| self.late(&tally))?;
                    if is_over {
                        self.end_turn(&mut turn).await;
                    }
                }
                Pause::TurnOver => self.end_turn(&mut turn).await,
                Pause::Starved if self.input.stream.has_ended() => break,
                Pause::Starved => {
                    self.counting.hand_over();
                    if let Err(error) = self.input.stream.more().await {
                        let (line, events) = (self.input.stream.items.number(), self.sums.events);
                        let error =
                            format!("after line {line}, with {events} events accepted: {error}");
                        return Err(Problem::bad("body", error));
                    }
                }
            }
        }
        for _ in 0..2 {
            let turned = self.window.turn().await;
            turned.map_err(|tally| self.late(&tally))?;
        }
        Ok(())
    }

    /// Publishes the lines at hand, and says why it stopped. Nothing is planned and not posted when
    /// it returns.
    fn publish(&mut self, turn: &mut Turn) -> Pause {
        let has_log = self.api.router().has_log();
        let mut planned = self.api.router().plan(&mut self.events);
        let pause = loop {
            let Some((number, event)) = self.input.next() else {
                break Pause::Starved;
            };
            let online = match event {
                Err(error) => {
                    self.failures.add(number, error);
                    0
                }
                Ok(event) => {
                    let bytes = event.payload.bytes().len();
                    let online = match self.input.is_stored {
                        true => planned.add(event),
                        false => planned.add_unstored(event),
                    };
                    if online != 0 || has_log {
                        self.window.add(online, bytes);
                    }
                    online
                }
            };
            let is_over = turn.is_over(online);
            if self.window.is_full(&self.api.limits) {
                break Pause::WindowFull { is_over };
            }
            if is_over {
                break Pause::TurnOver;
            }
        };
        if !planned.is_empty() {
            let (sums, counting) = (&mut self.sums, &mut self.counting);
            if let Some(first) = &self.first {
                // What it publishes as a whole is not known before its end.
                planned.attach(&first.note(None));
            }
            let position = planned.post(self.window.tally(), |audience| {
                counting.add(audience.online);
                sums.add(audience);
            });
            if let Some(first) = &mut self.first {
                first.published(position);
            }
        }
        pause
    }

    async fn end_turn(&mut self, turn: &mut Turn) {
        self.counting.hand_over();
        turn.end().await;
    }

    fn late(&self, tally: &Tally) -> Problem {
        let (line, events) = (self.input.stream.items.number(), self.sums.events);
        let detail = format!(
            "the batch stopped after line {line}, with {events} events accepted; the last event: \
             {}",
            unsettled(tally)
        );
        Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
    }
}

/// Events that wait for their workers or for the disk, in two halves: while the one settles, the
/// other fills, so that neither the publisher nor the workers stand idle.
#[derive(Debug, Default)]
struct Window {
    tallies: [Arc<Tally>; 2],
    current: usize,
    events: usize,
    targets: u64,
    bytes: usize,
}

impl Window {
    const fn tally(&self) -> &Arc<Tally> {
        &self.tallies[self.current]
    }

    /// Adds an event that is waited for.
    const fn add(&mut self, online: u64, bytes: usize) {
        self.events += 1;
        self.targets += online;
        self.bytes += bytes;
    }

    /// Returns whether the current half is.
    const fn is_full(&self, limits: &Limits) -> bool {
        self.events >= WINDOW_EVENTS_MAX / 2
            || self.targets >= limits.window_targets_max / 2
            || self.bytes >= limits.window_bytes_max / 2
    }

    /// Goes on with the other half once it has settled; gives it back when it does not.
    async fn turn(&mut self) -> Result<(), Arc<Tally>> {
        self.current ^= 1;
        (self.events, self.targets, self.bytes) = (0, 0, 0);
        match settled(self.tally()).await {
            Some(_) => Ok(()),
            None => Err(Arc::clone(self.tally())),
        }
    }

    fn counts(&self) -> Counts {
        let [a, b] = [self.tallies[0].counts(), self.tallies[1].counts()];
        Counts {
            written: a.written + b.written,
            queued: a.queued + b.queued,
            shed: a.shed + b.shed,
        }
    }

    fn unstored(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.unstored()).sum()
    }
}

#[derive(Debug, Default, Serialize)]
struct Sums {
    events: u64,
    subscribers: u64,
    online: u64,
}

impl Sums {
    fn add(&mut self, audience: Audience) {
        self.events += 1;
        self.subscribers += audience.subscribers;
        self.online += audience.online;
    }
}

#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    sums: Sums,
    written: u64,
    queued: u64,
    shed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    unstored: u64,
    #[serde(flatten)]
    failures: Failures,
}
