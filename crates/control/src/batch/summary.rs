//! One receipt for all events of a batch.
//!
//! The cheapest way to publish: no tally, no receipt and no answer of its own for an event.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use router::{Audience, Counts, Tally};
use serde::Serialize;

use super::line;
use crate::api::Api;
use crate::backend::Backend;
use crate::caller::Caller;
use crate::limits::{WINDOW_BYTES_MAX, WINDOW_EVENTS_MAX, WINDOW_TARGETS_MAX};
use crate::metrics::Counting;
use crate::problem::Problem;
use crate::receipt::{settled, unsettled};
use crate::stream::{Failures, Stream, Turn};

/// Publishes a batch and sums its receipts.
pub(super) async fn answer<B: Backend>(
    api: &Api<B>,
    stream: Stream,
    caller: Caller,
) -> Result<Response, Problem> {
    let _pending = api.published.pending();
    let mut batch = Batch {
        api,
        stream,
        caller,
        sums: Sums::default(),
        failures: Failures::default(),
        events: router::Batch::default(),
        window: Window::default(),
        counting: api.published.counting(),
    };
    batch.run().await?;
    let Batch {
        sums,
        failures,
        window,
        ..
    } = batch;
    Ok(Json(Summary {
        sums,
        counts: window.counts().into(),
        failures,
    })
    .into_response())
}

/// A batch under way.
struct Batch<'a, B> {
    api: &'a Api<B>,
    stream: Stream,
    caller: Caller,
    sums: Sums,
    failures: Failures,
    /// Events read and not on their way yet: at most those of one turn.
    events: router::Batch,
    window: Window,
    counting: Counting<'a>,
}

impl<B: Backend> Batch<'_, B> {
    async fn run(&mut self) -> Result<(), Problem> {
        let mut turn = Turn::default();
        loop {
            while let Some(online) = self.line() {
                if self.window.is_full() {
                    self.post();
                    self.window
                        .turn()
                        .await
                        .map_err(|tally| self.late(&tally))?;
                }
                if turn.is_over(online) {
                    self.post();
                    self.counting.hand_over();
                    turn.end().await;
                }
            }
            self.post();
            if self.stream.has_ended() {
                break;
            }
            self.counting.hand_over();
            if let Err(error) = self.stream.more().await {
                let (line, events) = (self.stream.items.number(), self.sums.events);
                let error = format!("after line {line}, with {events} events accepted: {error}");
                return Err(Problem::bad("body", error));
            }
        }
        self.window
            .turn()
            .await
            .map_err(|tally| self.late(&tally))?;
        self.window.turn().await.map_err(|tally| self.late(&tally))
    }

    /// Sends what was read on its way. Done before anything is waited for.
    fn post(&mut self) {
        if !self.events.is_empty() {
            let (sums, counting) = (&mut self.sums, &mut self.counting);
            let tally = self.window.tally();
            let router = self.api.router();
            router.post(&mut self.events, tally, |audience| {
                counting.add(audience.online);
                sums.add(audience);
            });
        }
    }

    /// Works off the next line at hand: how many ids it may reach.
    fn line(&mut self) -> Option<u64> {
        let (number, error) = match self.stream.items.next()? {
            Err((number, fault)) => (number, fault.to_string()),
            Ok(item) => match line::allowed(&item, self.api.event_bytes_max, &self.caller) {
                Err(error) => (item.number, error),
                Ok(event) => {
                    let bytes = event.payload.bytes().len();
                    let online = self.api.router().add(&mut self.events, event);
                    self.window.add(online, bytes);
                    return Some(online);
                }
            },
        };
        self.failures.add(number, error);
        Some(0)
    }

    fn late(&self, tally: &Tally) -> Problem {
        let (line, events) = (self.stream.items.number(), self.sums.events);
        let detail = format!(
            "the batch stopped after line {line}, with {events} events accepted; the last event: \
             {}",
            unsettled(tally)
        );
        Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
    }
}

/// Events that wait for their workers, in two halves: while the one settles, the other fills, so
/// that neither the publisher nor the workers stand idle.
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

    fn add(&mut self, online: u64, bytes: usize) {
        if online != 0 {
            self.events += 1;
            self.targets += online;
            self.bytes += bytes;
        }
    }

    /// Whether the current half is.
    const fn is_full(&self) -> bool {
        self.events >= WINDOW_EVENTS_MAX / 2
            || self.targets >= WINDOW_TARGETS_MAX / 2
            || self.bytes >= WINDOW_BYTES_MAX / 2
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
struct Outcomes {
    written: u64,
    queued: u64,
    shed: u64,
}

impl From<Counts> for Outcomes {
    fn from(
        Counts {
            written,
            queued,
            shed,
        }: Counts,
    ) -> Self {
        Self {
            written,
            queued,
            shed,
        }
    }
}

#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    sums: Sums,
    #[serde(flatten)]
    counts: Outcomes,
    #[serde(flatten)]
    failures: Failures,
}
