//! External workers: sessions that live on the thread of another crate.
//!
//! An external worker has a number and a mailbox like a worker, and brings its own metrics. It must
//! take its commands promptly and settle every parcel, because publishers wait for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use reactor::{Mailbox, SlotKey};
use router::{Counts, Parcel, SessionRef, WorkerId};

use crate::losses::{Lost, by_session};
use crate::mail::{Mail, SessionReport};
use crate::observer::Observer;
use crate::parcel::parcel_weight;
use crate::presence::{Presence, ProcessEdges};
use crate::shared::Shared;
use crate::stats::{Metric, WorkerStats};

/// The number and mailbox of an external worker. Owned by the thread of that worker; shared with
/// the threads that wake it.
pub struct ExternalWorker {
    pub(crate) id: WorkerId,
    pub(crate) shared: Arc<Shared>,
}

/// A command from the server to an external worker.
pub enum WorkerCommand {
    /// Deliver events, and [settle](ExternalWorker::settle) the parcel.
    Deliver(Parcel),
    /// Events were lost before they reached the worker: for each of these sessions, so many. It
    /// comes before any later event.
    Lost(Vec<(SlotKey, u64)>),
    /// The same of more sessions than were listed: each one may have lost events.
    LostByAny,
    /// Report on those of the sessions that still exist.
    Inspect(Vec<SlotKey>, Box<dyn FnOnce(Vec<SessionReport>) + Send>),
    /// Log sessions out.
    Close(Vec<SlotKey>),
    /// Tell sessions who is online, and [release](ExternalWorker::release_presence) the edges.
    Presence(ProcessEdges),
    /// Edges were lost: sessions that keep who is online must look again.
    PresenceSnapshots,
    /// The same of these sessions: the subscriptions of their ids have changed.
    PresenceChanged(Vec<SlotKey>),
    /// Stop the worker.
    Drain,
}

impl ExternalWorker {
    pub(crate) const fn new(id: WorkerId, shared: Arc<Shared>) -> Self {
        Self { id, shared }
    }

    fn mailbox(&self) -> &Mailbox<Mail> {
        self.shared.mailbox(self.id)
    }

    pub(crate) fn stats(&self) -> &WorkerStats {
        self.shared.stats(self.id)
    }

    /// Returns the number of this worker among all workers.
    pub const fn id(&self) -> WorkerId {
        self.id
    }

    /// Returns the server-wide name of the session that this worker keeps under `key`.
    pub const fn session(&self, key: SlotKey) -> SessionRef {
        SessionRef::new(self.id, key)
    }

    /// Returns whom the worker tells of its sessions, if there is an observer.
    pub fn observer(&self) -> Option<&Observer> {
        self.shared.settings.observer.as_ref()
    }

    /// Returns who is online, if the server keeps it.
    pub fn presence(&self) -> Option<&Arc<Presence>> {
        self.shared.presence.as_ref()
    }

    /// Takes the commands that have arrived, in order.
    pub fn take_commands(&self) -> impl Iterator<Item = WorkerCommand> {
        // In this order: a loss is noted before any later event is posted.
        let mail = self.mailbox().take();
        let lost = self.shared.losses(self.id).take();
        self.stats()
            .add(Metric::DeliveriesShed, lost.recipients() as u64);
        let lost = match lost {
            Lost::Listed { deliveries, .. } if deliveries.is_empty() => None,
            Lost::Listed { deliveries, .. } => {
                let lost = by_session(&deliveries).into_iter();
                let lost = lost.map(|(key, loss)| (key, loss.stored + loss.unstored));
                Some(WorkerCommand::Lost(lost.collect()))
            }
            Lost::ByAnySession { .. } => Some(WorkerCommand::LostByAny),
        };
        let commands = mail.into_iter().filter_map(|mail| match mail {
            Mail::Deliver(parcel) => Some(WorkerCommand::Deliver(parcel)),
            Mail::Presence(parcel) => Some(WorkerCommand::Presence(ProcessEdges(parcel))),
            Mail::PresenceSnapshots => Some(WorkerCommand::PresenceSnapshots),
            Mail::PresenceChanged(sessions) => {
                self.mailbox().release(sessions.weight());
                Some(WorkerCommand::PresenceChanged(sessions.0))
            }
            Mail::Inspect { sessions, report } => Some(WorkerCommand::Inspect(sessions, report)),
            Mail::Close(sessions) => Some(WorkerCommand::Close(sessions)),
            Mail::Drain { ends: true } => Some(WorkerCommand::Drain),
            // Only the server's own workers have streams and backlogs, and take settings.
            Mail::Drain { ends: false }
            | Mail::Published(_)
            | Mail::Slowest { .. }
            | Mail::Reload(_)
            | Mail::KeysFetched
            | Mail::LoginChecked { .. }
            | Mail::Revoke(_)
            | Mail::RevokeOlder(..) => None,
        });
        lost.into_iter().chain(commands)
    }

    /// Settles a parcel: counts the results of its deliveries and wakes its publisher.
    pub fn settle(&self, parcel: &Parcel, counts: Counts) {
        self.stats().delivered(counts);
        parcel.tally.add(counts);
        parcel.tally.settle();
        self.mailbox().release(parcel_weight(parcel));
    }

    /// Makes room for the edges that come after these.
    pub fn release_presence(&self, edges: &ProcessEdges) {
        self.mailbox().release(edges.0.weight());
    }

    /// Announces that the worker is about to sleep, and returns whether it may.
    pub fn may_sleep(&self) -> bool {
        self.mailbox().may_sleep()
    }

    /// Announces that the worker is awake, so that no other thread needs to wake it.
    pub fn wake_up(&self) {
        self.mailbox().wake_up();
    }

    /// Wakes the worker if it sleeps.
    pub fn ring(&self) {
        self.mailbox().ring();
    }

    /// Closes the mailbox. Parcels that are in it, and all later ones, are counted as shed.
    pub fn close_mailbox(&self) {
        for mail in self.mailbox().close() {
            if let Mail::Deliver(parcel) = mail {
                let shed = parcel.sessions();
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
        self.mailbox().as_fd()
    }
}
