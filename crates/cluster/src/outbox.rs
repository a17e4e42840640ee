//! The outbox: the writer of a node, and the handling of the engine's acknowledgements.
//!
//! The writer, in `replication`, decides what is sent when.

use std::time::Duration;

use async_nats::Message;
use parking_lot::Mutex;
use replication::{AppendError, Command, Incarnation, Refused, StreamSequence, Writer};
use serde::Deserialize;
use tokio::sync::Notify;

use crate::contact::Contact;
use crate::waiting::Waiting;

/// Error of an append when the node has stopped: another node may accept it.
pub(crate) const UNAVAILABLE: AppendError = AppendError::Unavailable {
    retry_after: Duration::from_secs(1),
};

/// The writer of a node, shared by callers that append, the sending task and the apply thread.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Writer; `None` when the node has ended.
    pub(crate) writer: Mutex<Option<Writer<Waiting>>>,
    pub(crate) contact: Contact,
    /// Wakes the sending task.
    pub(crate) wake: Notify,
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

impl Outbox {
    /// Calls `act` with the writer; `None` when the node has ended.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Writer<Waiting>) -> R) -> Option<R> {
        self.writer.lock().as_mut().map(act)
    }

    /// Returns the incarnation of the node; `None` if it has none now.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.with(|writer| writer.incarnation()).flatten()
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
        let Some(writer) = &mut *self.writer.lock() else {
            let error = UNAVAILABLE;
            return Err(Refused { token, error });
        };
        writer.append(now, commands, token)?;
        self.wake.notify_one();
        Ok(())
    }

    /// Handles an acknowledgement of the engine.
    pub(crate) fn take_answer(&self, message: &Message) {
        self.contact.hear();
        let Some((incarnation, number)) = entry_of(&message.subject) else {
            return;
        };
        let answer = serde_json::from_slice::<Answer>(&message.payload).ok();
        let stored = answer.as_ref().filter(|answer| answer.error.is_none());
        let sequence = stored.and_then(|answer| StreamSequence::new(answer.seq?));
        match sequence {
            Some(sequence) => {
                self.contact.hear_leader(sequence.number());
                self.with(|writer| writer.acknowledged(incarnation, number, sequence));
            }
            None => {
                let reason = answer.and_then(|answer| answer.error?.description);
                let reason = reason.unwrap_or_else(|| "the log has no leader".to_owned());
                tracing::debug!("the engine did not store an entry: {reason}");
                let now = self.contact.now();
                self.with(|writer| writer.refused(now, incarnation, number));
            }
        }
        self.wake.notify_one();
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

    /// If the node first forgot the time without a leader, entries that others have written
    /// meanwhile would be new to it, and clients would be sent to it although it is far behind.
    #[test]
    fn the_end_of_the_log_is_learned_from_an_acknowledgement_before_the_leader_counts_as_heard() {
        let outbox = Outbox {
            writer: Mutex::default(),
            contact: Contact::of_a_minute_ago(10),
            wake: Notify::new(),
        };
        let before = outbox.contact.leaderless();
        outbox.take_answer(&Message {
            subject: "_INBOX.x.y.abc.17".into(),
            reply: None,
            payload: r#"{"stream":"encke-a","seq":12}"#.into(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        });
        let contact = &outbox.contact;
        assert_eq!((contact.applied(), contact.last()), (10, 12));
        assert!(contact.lag() >= before, "{:?}", contact.lag());
        assert!(contact.leaderless() < before);
    }
}
