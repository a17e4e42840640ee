//! Mailboxes of all workers, for the router.

use std::sync::Arc;
use std::time::Duration;

use reactor::{Mailbox, SharedClock};
use router::{Mailboxes, Parcel, WorkerId};

use crate::limits::Limits;
use crate::losses::Losses;
use crate::mail::Mail;
use crate::parcel::parcel_weight;

/// Bytes of payloads, recipients and what holds them that may wait for one worker. A publish beyond
/// it is shed and says so in its receipt; publishers that await their receipts never get there.
pub(crate) const MAILBOX_WEIGHT_MAX: usize = 64 << 20;

/// Mailboxes of all workers, for the router.
pub struct Post {
    pub(crate) mailboxes: Box<[Arc<Mailbox<Mail>>]>,
    /// By worker: what its mailbox refused.
    pub(crate) losses: Box<[Losses]>,
    /// Clock that latencies of deliveries are measured by.
    pub(crate) clock: SharedClock,
}

impl Post {
    /// Makes the post to these mailboxes.
    pub(crate) fn new(
        mailboxes: Box<[Arc<Mailbox<Mail>>]>,
        clock: SharedClock,
        limits: &Limits,
    ) -> Self {
        let losses = mailboxes.iter().map(|_| Losses::new(limits)).collect();
        Self {
            mailboxes,
            losses,
            clock,
        }
    }

    /// Returns the mailbox of a worker.
    pub(crate) fn mailbox(&self, worker: WorkerId) -> &Mailbox<Mail> {
        &self.mailboxes[usize::from(worker.0)]
    }
}

impl Mailboxes for Post {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        let weight = parcel_weight(&parcel);
        let posted = self.mailbox(worker).post(Mail::Deliver(parcel), weight);
        posted.map_err(|mail| match mail {
            Mail::Deliver(parcel) => {
                self.losses[usize::from(worker.0)].add(&parcel);
                parcel
            }
            _ => unreachable!("a mailbox gives back what it was given"),
        })
    }

    fn ring(&self, worker: WorkerId) {
        self.mailbox(worker).ring();
    }
}
