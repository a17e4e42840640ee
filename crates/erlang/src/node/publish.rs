//! Events that processes publish: `{send, Id, Msg}` to `router`, and `{Id, Body}` to `any`, the
//! protocol of the C-node, which sends to the sessions of an id.

use history::Reach;
use replication::Append;
use router::{Event, Mailboxes, Tally};

use super::Node;
use crate::answers::{CallError, Caller};
use crate::connections::ConnectionId;
use crate::ids;
use crate::metrics::Metric;
use crate::payload;
use crate::pending_calls::PendingCall;
use crate::refusal::Refusal;
use crate::replicated::{self, Outcome};
use crate::term::Raw;

/// The error for a call when too many others are waiting.
const TOO_MANY_CALLS: &str =
    "too many calls are waiting for their receipts; call again when some of them are answered";

impl<M: Mailboxes> Node<M> {
    /// Publishes an event, and answers `{ok, N}` when its receipt is complete.
    pub(super) fn publish(&mut self, caller: Caller<'_>, id: Raw<'_>, message: Raw<'_>) {
        let event = match self.event(id, message) {
            Ok(event) => event,
            Err(error) => return self.connections.answer_result(caller, Err(error)),
        };
        if let Some(log) = self.config.log.clone() {
            let logged = self.log_event(&*log, caller, &event, Reach::Subscribers);
            if let Err(sentence) = logged {
                self.connections.answer_error(caller, sentence);
            }
        } else if caller.from.is_none() {
            self.router.publish(event, &self.ignored_receipts);
        } else if self.calls.is_full() {
            self.connections.answer_error(caller, TOO_MANY_CALLS);
        } else {
            let tally = Tally::new();
            self.router.publish(event, &tally);
            if let Some(counts) = self.calls.receipt(caller, tally) {
                let sent = counts.written + counts.queued;
                self.connections.answer_sent(caller, sent);
            }
        }
    }

    fn event(&self, id: Raw<'_>, message: Raw<'_>) -> Result<Event, CallError> {
        let subject = ids::of_term(id)?;
        let bytes_max = self.config.event_bytes_max;
        let payload = payload::of_term(message, bytes_max).ok_or_else(|| {
            format!(
                "the message is larger than the {bytes_max} bytes that an event may have; send a \
                 smaller one, or raise event-bytes"
            )
        })?;
        Ok(Event {
            subject,
            event_type: None,
            payload,
        })
    }

    /// Sends the event of a message `{Id, Body}` to `any`, where `Body` is an iolist.
    ///
    /// # Errors
    ///
    /// When the message has another form. The sender does not wait for an answer.
    pub(super) fn on_any(
        &mut self,
        connection: ConnectionId,
        message: Raw<'_>,
    ) -> Result<(), Refusal> {
        let event = message.tuple().and_then(|[id, body]| {
            let subject = ids::of_term(id).ok()?;
            let bytes = payload::of_iolist(body, self.config.event_bytes_max)?;
            let payload = payload::of_bytes(bytes, self.config.event_bytes_max)?;
            Some(Event {
                subject,
                event_type: None,
                payload,
            })
        });
        let event = event.ok_or(Refusal::NotUnderstood)?;
        match self.config.log.clone() {
            None => drop(self.router.send(event, &self.ignored_receipts)),
            Some(log) => {
                let from = None;
                // No caller waits; a failure is counted.
                let _ = self.log_event(&*log, Caller { connection, from }, &event, Reach::Subject);
            }
        }
        Ok(())
    }

    /// Appends an event to the log. A caller is answered when every node has reported its receipt.
    /// A cast has no caller, and is counted if it fails.
    ///
    /// # Errors
    ///
    /// When too many calls and casts are waiting. The error is a sentence for the caller.
    fn log_event(
        &mut self,
        log: &dyn Append,
        caller: Caller<'_>,
        event: &Event,
        reach: Reach,
    ) -> Result<(), &'static str> {
        if self.calls.is_full() {
            self.metrics.add(Metric::LogFailures, 1);
            return Err(TOO_MANY_CALLS);
        }
        let call = self.calls.logged(PendingCall::of(caller));
        replicated::append_event(log, event, reach, &call);
        Ok(())
    }

    /// Answers calls whose outcome is known.
    pub(crate) fn answer_completed(&mut self) {
        for (call, outcome) in self.calls.take_completed() {
            if let Outcome::Changes(Ok(())) = outcome {
                for (id, term) in &call.id_terms {
                    self.id_terms.remember(self.router.graph(), id, term);
                }
            }
            if let Outcome::NotLogged(_) = outcome {
                self.metrics.add(Metric::LogFailures, 1);
            }
            if let Some(list) = call.list {
                self.on_part_completed(list, outcome);
                continue;
            }
            let caller = Caller::restore(call.connection, call.from.as_deref());
            match outcome {
                Outcome::Receipt(counts) => {
                    let sent = counts.written + counts.queued;
                    self.connections.answer_sent(caller, sent);
                }
                Outcome::Changes(done) => {
                    self.connections
                        .answer_result(caller, done.map_err(CallError::from));
                }
                Outcome::NotLogged(error) => {
                    let sentence = replicated::sentence(error);
                    self.connections.answer_error(caller, &sentence);
                }
            }
        }
    }
}
