//! Large deliveries: served in slices, between which small ones have their turn, by a *sweep* over
//! the slots that works like an elevator: a delivery joins where the sweep is and leaves when the
//! sweep has been at all its recipients. So deliveries that come while another is under way share
//! its system calls, and each session still gets them in the order in which they came.

use std::ops::Range;
use std::rc::Rc;

use reactor::SlotKey;

use super::{Fanout, Queued};
use crate::frames::{TurnEvent, TurnFrames};
use crate::limits::Limits;
use crate::parcel::ParcelInFlight;

/// Delivery in the sweep.
#[derive(Debug)]
pub(super) struct Swept {
    pub(super) number: u64,
    pub(super) parcel: Rc<ParcelInFlight>,
    pub(super) delivery: u32,
    /// Index of the next recipient.
    next: usize,
    /// Number of recipients served.
    served: usize,
    /// Its event in this turn, once it is served in it.
    pub(super) event: Option<TurnEvent>,
}

impl Swept {
    pub(super) fn recipients(&self) -> &[SlotKey] {
        self.parcel.delivery(self.delivery).recipients.as_slice()
    }

    /// Returns whether all recipients are served.
    pub(super) fn is_done(&self) -> bool {
        self.served == self.recipients().len()
    }

    /// Returns whether a session is among the recipients that are not served yet.
    pub(super) fn awaits(&self, key: SlotKey) -> bool {
        let recipients = self.recipients();
        let Some(at) = place_of(recipients, key) else {
            return false;
        };
        // Served are those from where it joined to the next one, beyond the end too.
        let count = recipients.len();
        let joined = (self.next + count - self.served) % count;
        (at + count - joined) % count >= self.served
    }

    /// Takes the recipients before slot `end`, which the sweep serves in this turn.
    pub(super) fn take(&mut self, end: u32) -> Range<usize> {
        let rest = &self.recipients()[self.next..];
        let count = rest.partition_point(|key| key.index < end);
        // What it had behind it when it joined ends where it began.
        let count = count.min(self.recipients().len() - self.served);
        let start = self.next;
        self.next += count;
        self.served += count;
        start..self.next
    }
}

/// Returns the place of a session among recipients, which are in the order of their slots.
pub(super) fn place_of(recipients: &[SlotKey], key: SlotKey) -> Option<usize> {
    let at = recipients.partition_point(|recipient| recipient.index < key.index);
    (recipients.get(at) == Some(&key)).then_some(at)
}

impl Fanout {
    /// Lets waiting deliveries join the sweep, but not before the small ones that came earlier are
    /// through: those may be about the same subjects.
    pub(super) fn join_sweep(&mut self, limits: &Limits) {
        while self.sweep.len() < limits.swept_max
            && let Some(foremost) = self.waiting.front()
            && self
                .small
                .front()
                .is_none_or(|small| foremost.number < small.number)
            && let Some(Queued {
                number,
                parcel,
                delivery,
            }) = self.waiting.pop_front()
        {
            let last = self.sweep.last().map(|swept| swept.number);
            debug_assert!(last.is_none_or(|last| last < number), "invariant 1");
            let mut swept = Swept {
                number,
                parcel,
                delivery,
                next: 0,
                served: 0,
                event: None,
            };
            swept.next = swept
                .recipients()
                .partition_point(|key| key.index < self.slot);
            self.sweep.push(swept);
        }
    }

    /// The slot at which the next part of the sweep ends: none of its deliveries has more than its
    /// share of recipients before it. When the sweep is through with the last slot it begins again
    /// with the first.
    pub(super) fn sweep_end(&mut self, limits: &Limits) -> u32 {
        if self
            .sweep
            .iter()
            .all(|swept| swept.next == swept.recipients().len())
        {
            self.slot = 0;
            self.sweep.iter_mut().for_each(|swept| swept.next = 0);
        }
        let share = limits
            .large_recipients_per_turn
            .div_ceil(self.sweep.len().max(1));
        let ends = self.sweep.iter().map(|swept| {
            let slice = swept.recipients().get(swept.next..swept.next + share);
            slice.map_or(u32::MAX, |slice| slice[slice.len() - 1].index + 1)
        });
        ends.min().unwrap_or(u32::MAX)
    }

    /// Removes the deliveries that are done from the sweep.
    pub(super) fn leave_sweep(&mut self, frames: &mut TurnFrames) {
        let subjects = &mut self.subjects;
        self.sweep.retain(|swept| {
            let stays = !swept.is_done();
            if !stays {
                if let Some(event) = swept.event {
                    frames.end_delivery(event);
                }
                let subject = &swept.parcel.event(swept.delivery).subject;
                if let Some(count) = subjects.get_mut(subject) {
                    *count -= 1;
                    if *count == 0 {
                        subjects.remove(subject);
                    }
                }
            }
            stays
        });
    }
}
