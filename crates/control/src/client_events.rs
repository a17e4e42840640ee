//! Events that clients publish over WebSocket: from the server's thread for them to the router, or
//! to the log of a cluster.
//!
//! Must never run ahead of the workers: it waits until each group of events is delivered, so that
//! clients cannot fill the mailboxes, and until it is on disk.

use std::sync::Weak;

use history::Reach;
use replication::{Append, AppendError, CommandResult, Wait};
use router::{Batch, Event, Tally};
use server::{EventPublisher, PublishDone, PublishError};
use tokio::runtime::Handle;

use crate::api::Api;
use crate::limits::CLIENT_RECIPIENTS_MAX;
use crate::metrics::published::Verb;
use crate::receipt::settled;
use crate::replicated::{Replicated, append, command};

/// Publisher of the events of clients. Lives as long as the server.
pub(crate) struct ClientEvents {
    /// The threads that tell the time.
    threads: Handle,
    api: Weak<Api>,
}

impl ClientEvents {
    /// Makes the publisher of an API, which waits for receipts with the timer of `threads`.
    pub(crate) const fn new(threads: Handle, api: Weak<Api>) -> Self {
        Self { threads, api }
    }
}

impl EventPublisher for ClientEvents {
    fn publish(&self, events: Vec<Event>, done: PublishDone) {
        let Some(api) = self.api.upgrade() else {
            return done(Err(PublishError::Unavailable));
        };
        done(match &api.replicated {
            Some(Replicated { log, .. }) => append_all(&self.threads, &api, &**log, &events),
            None => publish(&self.threads, &api, events),
        });
    }
}

/// Publishes events through the log of a cluster and returns their positions.
fn append_all(
    threads: &Handle,
    api: &Api,
    log: &dyn Append,
    events: &[Event],
) -> Result<Vec<u64>, PublishError> {
    let _pending = api.published.pending();
    let commands = events
        .iter()
        .map(|event| command(event, Reach::Subscribers, true))
        .collect();
    let appending = async { append(log, commands, Wait::Delivered).await };
    let applied = threads.block_on(appending).map_err(|error| match error {
        AppendError::Unknown => PublishError::Unknown,
        AppendError::Unavailable { .. } | AppendError::Full | AppendError::TooLarge { .. } => {
            PublishError::Unavailable
        }
    })?;
    let position = |result: &CommandResult| match *result {
        CommandResult::Event {
            position, online, ..
        } => {
            api.published.one(Verb::Client, online);
            Some(position.number())
        }
        CommandResult::Change(_) | CommandResult::None => None,
    };
    let positions: Option<Vec<u64>> = applied.results.iter().map(position).collect();
    positions.ok_or(PublishError::Unknown)
}

/// Publishes events through the router and returns their positions.
fn publish(threads: &Handle, api: &Api, events: Vec<Event>) -> Result<Vec<u64>, PublishError> {
    let _pending = api.published.pending();
    let mut positions = Vec::with_capacity(events.len());
    let mut batch = Batch::default();
    let mut events = events.into_iter();
    while events.len() != 0 {
        let tally = Tally::new();
        let mut planned = api.router().plan(&mut batch);
        let mut recipients = 0;
        while recipients < CLIENT_RECIPIENTS_MAX
            && let Some(event) = events.next()
        {
            recipients += planned.add(event);
        }
        let count = planned.len() as u64;
        let post = |audience: router::Audience| {
            api.published.one(Verb::Client, audience.online);
        };
        let last = planned.post(&tally, post);
        let is_settled = threads.block_on(settled(&tally)).is_some();
        // Workers that are late have the events; a disk that is late may lose them.
        if !is_settled && tally.storing() != 0 {
            return Err(PublishError::Unknown);
        }
        positions.extend(last + 1 - count..=last);
    }
    Ok(positions)
}
