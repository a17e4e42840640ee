//! Sending of entries to the log, and handling of the engine's acknowledgements.
//!
//! The writer, in `replication`, decides what is sent when; this is its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt;
use parking_lot::Mutex;
use replication::{AppendError, Command, Incarnation, Outgoing, Refused, StreamSequence, Writer};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::contact::Contact;
use crate::incarnations;
use crate::waiting::Waiting;

/// Maximum time between two checks of the writer and the connection.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Time after which the end of an incarnation is resent if it was not read back.
const END_INTERVAL: Duration = Duration::from_secs(2);

/// Error of an append when the node has stopped: another node may accept it.
pub(crate) const UNAVAILABLE: AppendError = AppendError::Unavailable {
    retry_after: Duration::from_secs(1),
};

/// The writer of a node, shared by callers that append, the sending task and the apply thread.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Writer; `None` when the node has ended.
    pub(crate) writer: Mutex<Option<Writer<Waiting>>>,
    pub(crate) contact: Arc<Contact>,
    /// Wakes the sending task.
    pub(crate) wake: Notify,
}

/// Task that sends the entries of an outbox.
pub(crate) struct Sender {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) client: Client,
    /// Subject of entries.
    pub(crate) subject: String,
    /// Prefix of the subjects of acknowledgements.
    pub(crate) inbox: String,
    /// Earliest time of the next attempt to end the incarnation, in milliseconds of the node's
    /// clock.
    pub(crate) may_end_at: AtomicU64,
}

/// Answer of the engine to an entry (`PubAck` of the JetStream API).
#[derive(Debug, Deserialize)]
struct Answer {
    seq: Option<u64>,
    error: Option<Refusal>,
}

/// Reason why the engine did not store an entry.
#[derive(Debug, Deserialize)]
struct Refusal {
    description: Option<String>,
}

impl Sender {
    /// Sends entries as long as the node runs.
    pub(crate) async fn run(self) {
        loop {
            let Some((outgoing, refused, pause)) = self.look() else {
                return;
            };
            refuse(refused);
            for entry in outgoing {
                self.send(entry).await;
            }
            let _ = timeout(pause, self.outbox.wake.notified()).await;
        }
    }

    /// Returns the entries to send now, the refused appends, and the pause until the next check.
    /// `None` when the node has ended.
    fn look(&self) -> Option<(Vec<Outgoing>, Vec<Refused<Waiting>>, Duration)> {
        let now = self.outbox.contact.now();
        let mut writer = self.outbox.writer.lock();
        let writer = writer.as_mut()?;
        match self.client.connection_state() {
            State::Connected => writer.connected(),
            State::Pending | State::Disconnected => writer.disconnected(now),
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
        let is_connected = self.client.connection_state() == State::Connected;
        if is_connected {
            refused = writer.limit(self.client.max_payload());
        }
        let mut outgoing: Vec<_> = std::iter::from_fn(|| writer.poll_send(now)).collect();
        if is_connected
            && writer.is_blocked()
            && self.may_end_at.load(Ordering::Relaxed) <= milliseconds(now)
            && let Some(other) = incarnations::random()
        {
            let again = milliseconds(now + END_INTERVAL);
            self.may_end_at.store(again, Ordering::Relaxed);
            tracing::warn!(
                "the cluster's engine now accepts messages of at most {} bytes, but an entry that \
                 was sent is larger; this node continues under another incarnation",
                self.client.max_payload()
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
        let subject = self.subject.clone();
        let sent = self.client.publish_with_reply(subject, reply, bytes);
        if let Err(error) = sent.await {
            let now = self.outbox.contact.now();
            tracing::debug!("an entry was not sent: {error}");
            self.outbox
                .with(|writer| writer.refused(now, incarnation, number));
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Outbox {
    /// Calls `act` with the writer; `None` when the node has ended.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Writer<Waiting>) -> R) -> Option<R> {
        self.writer.lock().as_mut().map(act)
    }

    /// Appends commands and wakes the sending task.
    ///
    /// # Errors
    ///
    /// The token and the reason, if the writer refuses the append.
    pub(crate) fn append(
        &self,
        commands: &[Command],
        token: Waiting,
    ) -> Result<(), Refused<Waiting>> {
        let now = self.contact.now();
        match self.writer.lock().as_mut() {
            Some(writer) => writer.append(now, commands, token)?,
            None => {
                let error = UNAVAILABLE;
                return Err(Refused { token, error });
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Handles the engine's acknowledgements as long as the node runs.
    pub(crate) async fn take_answers(self: Arc<Self>, mut answers: Subscriber) {
        while let Some(message) = answers.next().await {
            self.contact.hear();
            if let Some((incarnation, number)) = entry_of(&message.subject) {
                self.take_answer(incarnation, number, &message);
                self.wake.notify_one();
            }
        }
    }

    fn take_answer(&self, incarnation: Incarnation, number: u64, message: &Message) {
        let answer = serde_json::from_slice::<Answer>(&message.payload).ok();
        let stored = answer.as_ref().filter(|answer| answer.error.is_none());
        let sequence = stored.and_then(|answer| StreamSequence::new(answer.seq?));
        let now = self.contact.now();
        match sequence {
            Some(sequence) => {
                self.contact.learn_last(sequence.number());
                self.contact.hear_leader();
                self.with(|writer| writer.acknowledged(incarnation, number, sequence));
            }
            None => {
                let reason = answer.and_then(|answer| answer.error?.description);
                let reason = reason.unwrap_or_else(|| "the log has no leader".to_owned());
                tracing::debug!("the engine did not store an entry: {reason}");
                self.with(|writer| writer.refused(now, incarnation, number));
            }
        }
    }
}

/// Answers appends that were refused. Call it without holding a lock.
pub(crate) fn refuse(refused: Vec<Refused<Waiting>>) {
    for Refused { token, error } in refused {
        token.refuse(error);
    }
}

/// Returns the incarnation and number of the entry whose answer has this subject.
fn entry_of(subject: &str) -> Option<(Incarnation, u64)> {
    let (rest, number) = subject.rsplit_once('.')?;
    let (_, incarnation) = rest.rsplit_once('.')?;
    let incarnation = u64::from_str_radix(incarnation, 16).ok()?;
    Some((Incarnation::new(incarnation)?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_an_answer_identifies_the_entry() {
        let incarnation = Incarnation::new(0xabc).unwrap();
        assert_eq!(entry_of("_INBOX.x.y.abc.17"), Some((incarnation, 17)));
        for subject in ["", "17", "_INBOX.0.1", "_INBOX.x.zz.1", "_INBOX.abc.-1"] {
            assert_eq!(entry_of(subject), None, "{subject}");
        }
    }

    #[test]
    fn both_kinds_of_answers_are_decoded() {
        let parse = |text: &str| serde_json::from_str::<Answer>(text).unwrap();
        let stored = parse(r#"{"stream":"encke-a","seq":7}"#);
        assert_eq!((stored.seq, stored.error.is_none()), (Some(7), true));
        let text =
            r#"{"error":{"code":503,"err_code":10077,"description":"full"},"stream":"a","seq":0}"#;
        let refused = parse(text).error.and_then(|error| error.description);
        assert_eq!(refused.as_deref(), Some("full"));
    }
}
