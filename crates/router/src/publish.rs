//! Publish and send: events that are planned and posted, one at a time or together.

use std::cell::RefCell;
use std::sync::Arc;

use history::Reach;

use crate::event::{Audience, Event};
use crate::mailboxes::Mailboxes;
use crate::plan::Batch;
use crate::planned::Planned;
use crate::route::Router;
use crate::tally::Tally;

/// Result of publishing an event, before it is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The event's position.
    pub position: u64,
    /// The numbers of ids that the event is for.
    pub audience: Audience,
}

thread_local! {
    /// Batch for events that are published one at a time.
    static ALONE: RefCell<Batch> = RefCell::default();
}

impl<M: Mailboxes> Router<M> {
    /// Publishes an event to all sessions of its subject and of the subject's subscribers.
    pub fn publish(&self, event: Event, tally: &Arc<Tally>) -> Accepted {
        self.deliver(event, Reach::Subscribers, true, tally)
    }

    /// Sends an event to the sessions of its subject only.
    pub fn send(&self, event: Event, tally: &Arc<Tally>) -> Accepted {
        self.deliver(event, Reach::Subject, true, tally)
    }

    /// Delivers an event to the sessions in its reach. The history stores it if `is_stored`.
    pub fn deliver(
        &self,
        event: Event,
        reach: Reach,
        is_stored: bool,
        tally: &Arc<Tally>,
    ) -> Accepted {
        self.deliver_noted(event, reach, is_stored, &[], tally)
    }

    /// Delivers an event like [`Self::deliver`]. The log, if there is one, stores `note` beside it.
    pub fn deliver_noted(
        &self,
        event: Event,
        reach: Reach,
        is_stored: bool,
        note: &[u8],
        tally: &Arc<Tally>,
    ) -> Accepted {
        ALONE.with_borrow_mut(|batch| {
            let mut audience = Audience::default();
            let mut planned = self.plan(batch);
            planned.add_for(event, reach, is_stored);
            planned.attach(note);
            let position = planned.post(tally, |its| audience = its);
            // The memory of an event to a million sessions is not kept.
            batch.sessions.shrink_to(self.slice);
            Accepted { position, audience }
        })
    }

    /// Begins to plan events that are posted together. `batch` is working memory, which a publisher
    /// reuses.
    pub fn plan<'a>(&'a self, batch: &'a mut Batch) -> Planned<'a, M> {
        let recorder = self.recorder.as_ref();
        Planned::new(self, batch, recorder.map(|_| self.planning.enter()))
    }
}
