//! `any`, the protocol of the C-node: `{any, Node} ! {Id, Body}` sends to the sessions of an id.

use std::sync::Arc;

use ::router::{Event, Mailboxes};
use history::Reach;

use super::ProcessRegistry;
use crate::connections::ConnectionId;
use crate::ids;
use crate::payload;
use crate::refusal::Refusal;
use crate::term::Raw;

impl<M: Mailboxes> ProcessRegistry<M> {
    /// Sends the event of a message `{Id, Body}`, where `Body` is an iolist.
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
            let bytes = payload::of_iolist(body, self.event_bytes_max)?;
            let payload = payload::of_bytes(bytes, self.event_bytes_max).ok()?;
            Some(Event {
                subject,
                event_type: None,
                payload,
            })
        });
        let event = event.ok_or(Refusal::NotUnderstood)?;
        match &self.log {
            None => drop(self.router.send(event, &self.ignored_receipts)),
            Some(log) => {
                let log = Arc::clone(log);
                // No caller waits; a failure is counted.
                let _ = self.log_event(&*log, connection, &event, Reach::Subject, None);
            }
        }
        Ok(())
    }
}
