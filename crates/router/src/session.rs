//! Names of workers and sessions, and the way out to the workers.

use std::fmt;

use crate::plan::Parcel;

/// Workers one router can address. The directory packs a worker into ten bits and keeps the last
/// value for itself.
pub const WORKERS_MAX: u16 = (1 << WORKER_BITS) - 1;

const WORKER_BITS: u32 = 10;
const SLOT_BITS: u32 = 26;
const GENERATION_BITS: u32 = 28;
const _: () = assert!(WORKER_BITS + SLOT_BITS + GENERATION_BITS == u64::BITS);

/// A worker: an index below [`WORKERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u16);

/// Names one session for as long as it lives, in eight bytes: its worker, its slot in that worker's
/// slab, and the slot's generation, so that a name outliving its session meets a closed slot and
/// never a stranger.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionRef(u64);

impl SessionRef {
    /// Slots one worker can address.
    pub const SLOTS_MAX: u32 = 1 << SLOT_BITS;
    /// Generations wrap here: a name would have to outlive 2^28 tenants of one slot to be mistaken.
    pub const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

    /// Packs the three parts; `slot` is below [`Self::SLOTS_MAX`], `generation` is masked.
    pub const fn new(worker: WorkerId, slot: u32, generation: u32) -> Self {
        debug_assert!(slot < Self::SLOTS_MAX && worker.0 <= WORKERS_MAX);
        let generation = (generation & Self::GENERATION_MASK) as u64;
        Self(
            (worker.0 as u64) << (SLOT_BITS + GENERATION_BITS)
                | (slot as u64) << GENERATION_BITS
                | generation,
        )
    }

    /// The worker that owns the session.
    pub const fn worker(self) -> WorkerId {
        WorkerId((self.0 >> (SLOT_BITS + GENERATION_BITS)) as u16)
    }

    /// The session's slot in its worker's slab.
    pub const fn slot(self) -> u32 {
        (self.0 >> GENERATION_BITS) as u32 & (Self::SLOTS_MAX - 1)
    }

    /// The generation of that slot, below 2^28.
    pub const fn generation(self) -> u32 {
        self.0 as u32 & Self::GENERATION_MASK
    }

    /// The packed form.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}#{}",
            self.worker().0,
            self.slot(),
            self.generation()
        )
    }
}

/// The way from the router to the workers' mailboxes.
pub trait Mailboxes: Send + Sync {
    /// Puts `parcel` at the end of a worker's mailbox.
    ///
    /// # Errors
    ///
    /// Gives the parcel back when the mailbox is full: its targets are counted as shed.
    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel>;

    /// Wakes a worker that sleeps, for what was posted to it.
    fn ring(&self, worker: WorkerId);
}
