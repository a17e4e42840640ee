//! Parcels in flight: taken by their worker, and not settled.

use std::cell::Cell;
use std::time::Duration;

use reactor::SlotKey;
use router::{Counts, Delivery, Event, Parcel};

/// Weight of a delivery besides its payload and its recipients, in bytes.
const DELIVERY_BYTES: usize = 128;

/// Parcel that its worker has taken and not settled. Shared by its deliveries, which may wait in
/// different queues. A parcel is settled once: when its last delivery is done, or when the worker
/// ends.
#[derive(Debug)]
pub(crate) struct ParcelInFlight {
    parcel: Parcel,
    /// Deliveries that are not done.
    left: Cell<usize>,
    counts: Cell<Counts>,
}

impl ParcelInFlight {
    pub(crate) const fn new(parcel: Parcel) -> Self {
        let left = Cell::new(parcel.deliveries.len());
        Self {
            parcel,
            left,
            counts: Cell::new(Counts {
                written: 0,
                queued: 0,
                shed: 0,
            }),
        }
    }

    pub(crate) fn deliveries(&self) -> &[Delivery] {
        &self.parcel.deliveries
    }

    pub(crate) fn delivery(&self, number: u32) -> &Delivery {
        &self.parcel.deliveries[number as usize]
    }

    /// Returns the event of a delivery.
    pub(crate) fn event(&self, delivery: u32) -> &Event {
        &self.parcel.events[self.delivery(delivery).event as usize]
    }

    /// Returns the time when the parcel's plan began.
    pub(crate) const fn accepted(&self) -> Duration {
        self.parcel.accepted
    }

    pub(crate) fn position(&self, delivery: u32) -> u64 {
        self.parcel.first_position + u64::from(self.delivery(delivery).event)
    }

    /// Counts what became of a delivery, or of a part of it. The last part of the last delivery
    /// settles the parcel; its weight is returned then, and 0 before.
    pub(crate) fn count(&self, counts: Counts, is_last: bool) -> usize {
        let mut sum = self.counts.get();
        sum.written += counts.written;
        sum.queued += counts.queued;
        sum.shed += counts.shed;
        self.counts.set(sum);
        assert!(self.left.get() > 0, "a parcel is settled once");
        let left = self.left.get() - usize::from(is_last);
        self.left.set(left);
        if left > 0 {
            return 0;
        }
        let counted = sum.written + sum.queued + sum.shed;
        debug_assert_eq!(counted, self.parcel.sessions(), "each session counts once");
        self.settle();
        parcel_weight(&self.parcel)
    }

    /// Settles the parcel, which may wake its publisher.
    fn settle(&self) {
        self.parcel.tally.add(self.counts.get());
        self.parcel.tally.settle();
    }
}

impl Drop for ParcelInFlight {
    /// Counts the deliveries that are left as shed, as the worker has ended, and settles the
    /// parcel.
    fn drop(&mut self) {
        if self.left.get() > 0 {
            let mut counts = self.counts.get();
            let counted = counts.written + counts.queued + counts.shed;
            counts.shed += self.parcel.sessions() - counted;
            self.counts.set(counts);
            self.settle();
        }
    }
}

/// Returns what a parcel weighs in a mailbox.
pub(crate) fn parcel_weight(parcel: &Parcel) -> usize {
    let payloads = parcel.deliveries.iter().map(|delivery| {
        parcel.events[delivery.event as usize].payload.bytes().len() + DELIVERY_BYTES
    });
    payloads.sum::<usize>() + parcel.recipients() * size_of::<SlotKey>()
}
