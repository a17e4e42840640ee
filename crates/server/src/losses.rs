//! Deliveries that a full mailbox refused.
//!
//! Owns what their worker must know of them: which session has lost what. Publishers add them while
//! they have the sequencer, so before any later event is posted. The worker takes its mail and then
//! the losses: it knows of a lost event before it serves a later one.

use parking_lot::Mutex;
use reactor::SlotKey;
use router::{Parcel, Recipients};

use crate::limits::Limits;

/// Deliveries that the full mailbox of one worker refused, until the worker takes them.
#[derive(Debug)]
pub(crate) struct Losses {
    lost: Mutex<Lost>,
    /// Recipients that are listed.
    recipients_max: usize,
}

/// Deliveries that a worker has lost since it last took them.
#[derive(Debug)]
pub(crate) enum Lost {
    /// By delivery, in the order of their positions.
    Listed {
        deliveries: Vec<LostDelivery>,
        recipients: usize,
    },
    /// More than the list may hold: each session of the worker may have lost all of it.
    ByAnySession { loss: Loss, recipients: usize },
}

/// Delivery that a full mailbox refused.
#[derive(Debug)]
pub(crate) struct LostDelivery {
    position: u64,
    is_stored: bool,
    recipients: Recipients,
}

/// Events that one session has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Loss {
    /// Position of the first that the history stores.
    pub(crate) first_stored: Option<u64>,
    /// Number of those that the history stores.
    pub(crate) stored: u64,
    /// Number of the others.
    pub(crate) unstored: u64,
}

impl Losses {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            lost: Mutex::default(),
            recipients_max: limits.lost_recipients_max,
        }
    }

    /// Adds the deliveries of a parcel that the mailbox refused.
    pub(crate) fn add(&self, parcel: &Parcel) {
        self.lost.lock().add(parcel, self.recipients_max);
    }

    /// Takes what was lost.
    pub(crate) fn take(&self) -> Lost {
        std::mem::take(&mut self.lost.lock())
    }

    /// Returns whether nothing was lost since it was last taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.lost.lock().recipients() == 0
    }
}

impl Default for Lost {
    fn default() -> Self {
        Self::Listed {
            deliveries: Vec::new(),
            recipients: 0,
        }
    }
}

impl Lost {
    /// Returns the number of recipients of all deliveries.
    pub(crate) const fn recipients(&self) -> usize {
        match self {
            Self::Listed { recipients, .. } | Self::ByAnySession { recipients, .. } => *recipients,
        }
    }

    fn add(&mut self, parcel: &Parcel, recipients_max: usize) {
        let added = parcel.sessions() as usize;
        let lost = parcel.deliveries.iter().map(|delivery| {
            let position = parcel.first_position + u64::from(delivery.event);
            (position, delivery)
        });
        if let Self::Listed {
            deliveries,
            recipients,
        } = self
        {
            if *recipients + added <= recipients_max {
                *recipients += added;
                deliveries.extend(lost.map(|(position, delivery)| LostDelivery {
                    position,
                    is_stored: delivery.is_stored,
                    recipients: delivery.recipients.clone(),
                }));
                return;
            }
            let mut loss = Loss::default();
            for delivery in &*deliveries {
                loss.add(delivery.position, delivery.is_stored);
            }
            let recipients = *recipients;
            *self = Self::ByAnySession { loss, recipients };
        }
        if let Self::ByAnySession { loss, recipients } = self {
            *recipients += added;
            for (position, delivery) in lost {
                loss.add(position, delivery.is_stored);
            }
        }
    }
}

impl Loss {
    fn add(&mut self, position: u64, is_stored: bool) {
        if is_stored {
            self.first_stored.get_or_insert(position);
            self.stored += 1;
        } else {
            self.unstored += 1;
        }
    }
}

/// Returns what each session has lost, in the order of their slots.
pub(crate) fn by_session(deliveries: &[LostDelivery]) -> Vec<(SlotKey, Loss)> {
    let lost = deliveries.iter().flat_map(|delivery| {
        let recipients = delivery.recipients.as_slice().iter();
        recipients.map(|&key| (key, delivery.position, delivery.is_stored))
    });
    let mut lost: Vec<_> = lost.collect();
    lost.sort_unstable();
    let sessions = lost.chunk_by(|a, b| a.0 == b.0).map(|lost| {
        let mut loss = Loss::default();
        for &(_, position, is_stored) in lost {
            loss.add(position, is_stored);
        }
        (lost[0].0, loss)
    });
    sessions.collect()
}
