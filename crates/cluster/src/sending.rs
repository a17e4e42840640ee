//! Sending of entries to the log.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
use async_nats::connection::State;
use futures_util::StreamExt;
use replication::{Outgoing, Refused};
use tokio::time::timeout;

use crate::incarnations;
use crate::outbox::refuse;
use crate::shared::Shared;
use crate::waiting::Waiting;

/// Maximum time between two checks of the writer and the connection.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Time after which the end of an incarnation is resent if it was not read back.
const END_INTERVAL: Duration = Duration::from_secs(2);

/// Task that sends the entries of a node.
pub(crate) struct Sender {
    pub(crate) shared: Arc<Shared>,
    /// Prefix of the subjects of acknowledgements.
    pub(crate) inbox: String,
    /// Earliest time of the next attempt to end the incarnation, by the node's clock.
    pub(crate) may_end_at: Duration,
}

/// Handles the engine's acknowledgements as long as the node runs.
pub(crate) async fn take_answers(shared: Arc<Shared>, mut answers: Subscriber) {
    while let Some(message) = answers.next().await {
        shared.outbox.take_answer(&message);
    }
}

impl Sender {
    /// Sends entries as long as the node runs.
    pub(crate) async fn run(mut self) {
        while let Some((outgoing, refused, pause)) = self.look() {
            refuse(refused);
            for entry in outgoing {
                self.send(entry).await;
            }
            let _ = timeout(pause, self.shared.outbox.wake.notified()).await;
        }
    }

    /// Returns the entries to send now, the refused appends, and the pause until the next check.
    /// `None` when the node has ended.
    fn look(&mut self) -> Option<(Vec<Outgoing>, Vec<Refused<Waiting>>, Duration)> {
        let Shared { client, outbox, .. } = &*self.shared;
        let now = outbox.contact.now();
        let mut writer = outbox.writer.lock();
        let writer = writer.as_mut()?;
        let is_connected = client.connection_state() == State::Connected;
        match is_connected {
            true => writer.connected(),
            false => writer.disconnected(now),
        }
        if writer.needs_incarnation()
            && let Some(incarnation) = incarnations::random()
        {
            tracing::warn!(
                "this node was declared gone; it continues as incarnation {incarnation}"
            );
            writer.renew(incarnation);
        }
        let mut refused = Vec::new();
        if is_connected {
            refused = writer.limit(client.max_payload());
        }
        let mut outgoing: Vec<_> = std::iter::from_fn(|| writer.poll_send(now)).collect();
        if is_connected
            && writer.is_blocked()
            && self.may_end_at <= now
            && let Some(other) = incarnations::random()
        {
            self.may_end_at = now + END_INTERVAL;
            tracing::warn!(
                "the cluster's engine now accepts messages of at most {} bytes, but an entry that \
                 was sent is larger; this node continues under another incarnation",
                client.max_payload()
            );
            outgoing.extend(writer.end_incarnation(other).into_iter().flatten());
        }
        refused.extend(writer.expire(now));
        let deadline = writer.deadline();
        let pause = deadline.map_or(LOOK_INTERVAL, |at| at.saturating_sub(now));
        Some((outgoing, refused, pause.min(LOOK_INTERVAL)))
    }

    async fn send(&self, entry: Outgoing) {
        let Outgoing {
            incarnation,
            number,
            bytes,
        } = entry;
        let reply = format!("{}.{:x}.{number}", self.inbox, incarnation.number());
        let Shared {
            client,
            stream,
            outbox,
            ..
        } = &*self.shared;
        let subject = stream.subject.clone();
        let sent = client.publish_with_reply(subject, reply, bytes);
        if let Err(error) = sent.await {
            let now = outbox.contact.now();
            tracing::debug!("an entry was not sent: {error}");
            outbox.with(|writer| writer.refused(now, incarnation, number));
        }
    }
}
