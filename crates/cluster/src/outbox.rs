//! The outbox: the writer of a node, and the handling of the engine's acknowledgements.
//!
//! The writer, in `replication`, decides what is sent when.

use std::time::Duration;

use async_nats::Message;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use parking_lot::Mutex;
use replication::{AppendError, Command, Incarnation, Refused, StreamSequence, Writer};
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
        let stored = match serde_json::from_slice(&message.payload) {
            Ok(Response::Ok(PublishAck { sequence, .. })) => StreamSequence::new(sequence),
            Ok(Response::Err { error }) => {
                tracing::debug!("the engine did not store an entry: {error}");
                None
            }
            Err(_) => {
                tracing::debug!("the engine did not store an entry: the log has no leader");
                None
            }
        };
        match stored {
            Some(sequence) => {
                self.contact.hear_leader(sequence.number());
                self.with(|writer| writer.acknowledged(incarnation, number, sequence));
            }
            None => {
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
        let parse = |text: &str| serde_json::from_str::<Response<PublishAck>>(text).unwrap();
        let stored = parse(r#"{"stream":"encke-a","seq":7}"#);
        assert!(matches!(stored, Response::Ok(ack) if ack.sequence == 7));
        let text =
            r#"{"error":{"code":503,"err_code":10077,"description":"full"},"stream":"a","seq":0}"#;
        let Response::Err { error } = parse(text) else {
            panic!("it was not stored");
        };
        assert!(error.to_string().contains("full"), "{error}");
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
