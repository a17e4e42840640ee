//! External workers: sessions that live on the thread of another crate.
//!
//! An external worker has a number and a mailbox like a worker, and brings its own metrics. It must
//! take its commands promptly and settle every parcel, because publishers wait for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use reactor::{Mailbox, SlotKey};
use router::{Counts, Parcel, SessionRef, WorkerId};

use crate::mail::{Mail, SessionReport, parcel_weight};
use crate::stats::WorkerStats;

/// The number and mailbox of an external worker. Owned by the thread of that worker; shared with
/// the threads that wake it.
pub struct ExternalWorker {
    pub(crate) id: WorkerId,
    pub(crate) mailbox: Arc<Mailbox<Mail>>,
    /// Metrics of deliveries. The worker counts everything else itself.
    pub(crate) stats: Arc<WorkerStats>,
}

/// A command from the server to an external worker.
pub enum WorkerCommand {
    /// Deliver events, and [settle](ExternalWorker::settle) the parcel.
    Deliver(Parcel),
    /// Report on those of the sessions that still exist.
    Inspect(Vec<SlotKey>, Box<dyn FnOnce(Vec<SessionReport>) + Send>),
    /// Log sessions out.
    Close(Vec<SlotKey>),
    /// Stop the worker.
    Drain,
}

impl ExternalWorker {
    /// Returns the number of this worker among all workers.
    pub const fn id(&self) -> WorkerId {
        self.id
    }

    /// Returns the server-wide name of the session that this worker keeps under `key`.
    pub const fn session(&self, key: SlotKey) -> SessionRef {
        SessionRef::new(self.id, key)
    }

    /// Takes the commands that have arrived, in order.
    pub fn take_commands(&self) -> impl Iterator<Item = WorkerCommand> {
        self.mailbox
            .take()
            .into_iter()
            .filter_map(|mail| match mail {
                Mail::Deliver(parcel) => Some(WorkerCommand::Deliver(parcel)),
                Mail::Inspect { sessions, report } => {
                    Some(WorkerCommand::Inspect(sessions, report))
                }
                Mail::Close(sessions) => Some(WorkerCommand::Close(sessions)),
                Mail::Drain => Some(WorkerCommand::Drain),
                // Only the server's own workers relay requests, have backlogs and take settings.
                Mail::Answer { .. }
                | Mail::Slowest { .. }
                | Mail::Reload(_)
                | Mail::KeysFetched
                | Mail::Revoke(_)
                | Mail::RevokeOlder(..) => None,
            })
    }

    /// Settles a parcel: counts the results of its deliveries and wakes its publisher.
    pub fn settle(&self, parcel: &Parcel, counts: Counts) {
        self.stats.delivered(counts);
        parcel.tally.add(counts);
        parcel.tally.settle();
        self.mailbox.release(parcel_weight(parcel));
    }

    /// Announces that the worker is about to sleep, and returns whether it may.
    pub fn may_sleep(&self) -> bool {
        self.mailbox.may_sleep()
    }

    /// Announces that the worker is awake, so that no other thread needs to wake it.
    pub fn wake_up(&self) {
        self.mailbox.wake_up();
    }

    /// Wakes the worker if it sleeps.
    pub fn ring(&self) {
        self.mailbox.ring();
    }

    /// Closes the mailbox. Parcels that are in it, and all later ones, are counted as shed.
    pub fn close_mailbox(&self) {
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

impl AsFd for ExternalWorker {
    /// The descriptor that becomes readable, as an edge, when the worker must wake.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.as_ref().as_fd()
    }
}
