//! Names of workers and sessions.

use std::fmt;

use reactor::SlotKey;

/// Most workers that one router can address: 1023. The directory packs a worker into ten bits and
/// keeps the last value for itself.
pub const WORKERS_MAX: u16 = (1 << WORKER_BITS) - 1;

const WORKER_BITS: u32 = u64::BITS - SlotKey::BITS;

/// Index of a worker, below [`WORKERS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u16);

/// Name of a session, unique while the session lives, in eight bytes: its worker, and its slot
/// there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionRef(u64);

impl SessionRef {
    /// Names the session that a worker keeps under `key` in its slab.
    pub const fn new(worker: WorkerId, key: SlotKey) -> Self {
        debug_assert!(worker.0 <= WORKERS_MAX);
        Self((worker.0 as u64) << SlotKey::BITS | key.to_bits())
    }

    /// Unpacks a name.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the worker that owns the session.
    pub const fn worker(self) -> WorkerId {
        WorkerId((self.0 >> SlotKey::BITS) as u16)
    }

    /// Returns the session's name in its worker's slab.
    pub const fn key(self) -> SlotKey {
        SlotKey::from_bits(self.0)
    }

    /// Returns the packed form.
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
