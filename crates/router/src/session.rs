//! Names of workers and sessions, and the way out to the workers.

use std::fmt;

use reactor::SlotKey;

use crate::plan::Parcel;

/// Workers one router can address. The directory packs a worker into ten bits and keeps the last
/// value for itself.
pub const WORKERS_MAX: u16 = (1 << WORKER_BITS) - 1;

const WORKER_BITS: u32 = u64::BITS - SlotKey::BITS;

/// A worker: an index below [`WORKERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u16);

/// Name of a session for as long as it lives, in eight bytes: its worker, and its slot there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionRef(u64);

impl SessionRef {
    /// Packs a worker and a slot of its slab.
    pub const fn new(worker: WorkerId, key: SlotKey) -> Self {
        debug_assert!(worker.0 <= WORKERS_MAX);
        Self((worker.0 as u64) << SlotKey::BITS | key.to_bits())
    }

    /// The worker that owns the session.
    pub const fn worker(self) -> WorkerId {
        WorkerId((self.0 >> SlotKey::BITS) as u16)
    }

    /// The session's slot in its worker's slab.
    pub const fn key(self) -> SlotKey {
        SlotKey::from_bits(self.0)
    }

    /// The packed form.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlotKey { index, generation } = self.key();
        write!(f, "{}/{index}#{generation}", self.worker().0)
    }
}

/// The way from the router to the workers' mailboxes.
pub trait Mailboxes: Send + Sync {
    /// Puts `parcel` at the end of a worker's mailbox.
    ///
    /// # Errors
    ///
    /// Gives the parcel back when the mailbox is full: its recipients are counted as shed.
    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel>;

    /// Wakes a worker that sleeps, for what was posted to it.
    fn ring(&self, worker: WorkerId);
}
