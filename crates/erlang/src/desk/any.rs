//! The C-node's protocol: `{any, Node} ! {Id, Body}` sends to the sessions of an id.

use ::router::{Event, Mailboxes};

use super::Desk;
use crate::ids;
use crate::payload;
use crate::term::Raw;

impl<M: Mailboxes> Desk<M> {
    /// A message that is no `{Id, Body}`, with an id and an iolist, is counted and dropped: nobody waits for
    /// an answer.
    pub(super) fn on_any(&mut self, message: Raw<'_>) {
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
        match event {
            Some(event) => {
                self.router.send(event, &self.unawaited);
            }
            None => self.not_understood += 1,
        }
    }
}
