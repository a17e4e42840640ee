//! A place among the workers for sessions that are no connections of the public listener.
//!
//! A guest has a number, a mailbox and metrics like a worker, and lives on a thread of another crate. It
//! must take its errands soon and settle every parcel: publishers wait for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reactor::SlotKey;
use reactor::{Mailbox, Timing};
use router::{Counts, Parcel, SessionRef, WorkerId};

use crate::mail::{Mail, SessionReport, parcel_weight};
use crate::stats::{Metric, WorkerStats};

/// A worker's place, and what comes there. Owned by the thread that lives in it; shared by those that
/// wake it.
pub struct Guest {
    pub(crate) id: WorkerId,
    pub(crate) mailbox: Arc<Mailbox<Mail>>,
    pub(crate) stats: Arc<WorkerStats>,
    /// Only the guest's own thread looks at it.
    timing: Mutex<Timing>,
}

/// What a guest is asked to do.
pub enum Errand {
    /// Deliver events, and [settle](Guest::settle) them.
    Deliver(Parcel),
    /// Report on those of the sessions that are there.
    Inspect(Vec<SlotKey>, Box<dyn FnOnce(Vec<SessionReport>) + Send>),
    /// Log sessions out.
    Close(Vec<SlotKey>),
    /// End.
    Drain,
}

impl Guest {
    pub(crate) fn new(id: WorkerId, mailbox: Arc<Mailbox<Mail>>, stats: Arc<WorkerStats>) -> Self {
        Self {
            id,
            mailbox,
            stats,
            timing: Mutex::default(),
        }
    }

    /// The guest's number among the workers.
    pub const fn id(&self) -> WorkerId {
        self.id
    }

    /// The session that the guest keeps under this name.
    pub const fn session(&self, key: SlotKey) -> SessionRef {
        SessionRef::new(self.id, key)
    }

    /// What has come, in order.
    pub fn take(&self) -> impl Iterator<Item = Errand> {
        self.mailbox
            .take()
            .into_iter()
            .filter_map(|mail| match mail {
                Mail::Deliver(parcel) => Some(Errand::Deliver(parcel)),
                Mail::Inspect { recipients, report } => Some(Errand::Inspect(recipients, report)),
                Mail::Close(recipients) => Some(Errand::Close(recipients)),
                Mail::Drain => Some(Errand::Drain),
                // Only workers relay, and have backlogs.
                Mail::Answer { .. } | Mail::Slowest { .. } => None,
            })
    }

    /// Tells the publisher what became of a parcel.
    pub fn settle(&self, parcel: &Parcel, counts: Counts) {
        self.stats.delivered(counts);
        parcel.tally.add(counts);
        parcel.tally.settle();
        self.mailbox.settle(parcel_weight(parcel));
    }

    /// The guest is about to wait for as long as it takes. `now` is the time of its driver.
    pub fn rest(&self, now: Duration) {
        self.timing.lock().rest(now, &self.stats.counters);
    }

    /// A turn of the guest begins, after a poll that returned so many events.
    pub fn begin(&self, now: Duration, events: usize) {
        let counters = &self.stats.counters;
        self.timing.lock().begin(now, events, counters);
    }

    /// Announces that the guest is about to sleep, and whether it may.
    pub fn may_sleep(&self) -> bool {
        self.mailbox.may_sleep()
    }

    /// The guest is awake: nobody need ring.
    pub fn wake_up(&self) {
        self.mailbox.wake_up();
    }

    /// Wakes the guest if it sleeps.
    pub fn ring(&self) {
        self.mailbox.ring();
    }

    /// Adds to a metric. Only the guest's own thread may.
    pub fn add(&self, metric: Metric, count: u64) {
        self.stats.add(metric, count);
    }

    /// Subtracts from a gauge. Only the guest's own thread may.
    pub fn sub(&self, metric: Metric, count: u64) {
        self.stats.take(metric, count);
    }

    /// Ends: what is left and what comes from now on is shed, and said.
    pub fn leave(&self) {
        for mail in self.mailbox.close() {
            if let Mail::Deliver(parcel) = mail {
                let shed = parcel.recipients() as u64;
                let counts = Counts {
                    shed,
                    ..Counts::default()
                };
                self.settle(&parcel, counts);
            }
        }
    }
}

impl AsFd for Guest {
    /// Readable, as an edge, when the guest must wake.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.as_ref().as_fd()
    }
}
