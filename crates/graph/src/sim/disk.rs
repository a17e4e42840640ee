//! A disk in memory that loses power, tears writes and fails as it is told.
//!
//! A write is seen at once and kept from the next sync on. A sync that fails leaves what it should
//! have written as it was, and no later sync writes it, as on Linux. Nor is what is written to the
//! same place later, until the file is forgotten: on ext4 it may be lost.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::Disk;

/// Size of a sector, in bytes, which disks write atomically. Writes are torn between sectors.
const SECTOR: usize = 512;

/// A simulated disk. Shared by the test and the store.
#[derive(Debug, Default)]
pub struct SimDisk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Contents for reads.
    seen: Vec<u8>,
    /// Contents after a power loss.
    kept: Vec<u8>,
    /// Operations since the last sync, in order.
    since: Vec<Done>,
    /// Where syncs have failed: nothing is kept until the file is forgotten.
    poisoned: Vec<Range<usize>>,
    syncs: u64,
    writes: u64,
    faults: Faults,
    /// Whether power is lost: later operations are not kept, but succeed.
    frozen: bool,
    /// What the process had done when it was killed, which goes on as if it were not.
    at_kill: Option<AtKill>,
    /// A number for all that was written so far, and where.
    digest: u64,
}

/// What stays in the kernel when a process is killed.
#[derive(Debug, Clone)]
struct AtKill {
    seen: Vec<u8>,
    kept: Vec<u8>,
    since: Vec<Done>,
    poisoned: Vec<Range<usize>>,
}

#[derive(Debug, Clone)]
enum Done {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

/// Faults of a disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Power is lost within this sync, counted from 1.
    pub power_lost_at: Option<u64>,
    /// The process is killed in the middle of this write, counted from 1.
    pub killed_at: Option<u64>,
    /// Which sectors of that sync are written all the same: a seed. None writes nothing of it.
    pub torn_by: Option<u64>,
    /// This sync fails, and what it should have written is taken for clean.
    pub sync_failed_at: Option<u64>,
    /// The file may grow to so many bytes.
    pub room: Option<u64>,
    /// Every write fails.
    pub writes_fail: bool,
}

impl SimDisk {
    /// A disk that holds `content`, durably.
    pub fn holding(content: Vec<u8>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            seen: content.clone(),
            kept: content,
            ..State::default()
        })))
    }

    /// Sets what goes wrong from now on.
    pub fn set(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// Returns the number of syncs so far.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Returns the number of writes so far.
    pub fn writes(&self) -> u64 {
        self.0.lock().writes
    }

    /// Returns a number for all that was written so far, and where.
    pub fn digest(&self) -> u64 {
        self.0.lock().digest
    }

    /// Whether power was lost.
    pub fn is_frozen(&self) -> bool {
        self.0.lock().frozen
    }

    /// Whether the process was killed.
    pub fn is_killed(&self) -> bool {
        self.0.lock().at_kill.is_some()
    }

    /// What is on the disk after a loss of power now.
    pub fn after_power_loss(&self) -> Vec<u8> {
        self.0.lock().kept.clone()
    }

    /// What is on the disk after a loss of power now, of which some sectors were written since the
    /// last sync, as the seed says.
    pub fn after_power_loss_torn_by(&self, seed: u64) -> Vec<u8> {
        let state = self.0.lock();
        let mut kept = state.kept.clone();
        if !state.frozen {
            tear(&mut kept, &state.since, seed);
        }
        kept
    }

    /// What is in the file when the process dies and the machine goes on.
    pub fn after_kill(&self) -> Vec<u8> {
        self.0.lock().seen.clone()
    }

    /// The disk as the next process finds it when this one is killed now, or was: what no sync has
    /// written yet can still be lost with the power.
    pub fn left_by_killed(&self) -> Arc<Self> {
        let mut state = self.0.lock();
        let left = state.at_kill.take().unwrap_or_else(|| state.now());
        Arc::new(Self(Mutex::new(State {
            seen: left.seen,
            kept: left.kept,
            since: left.since,
            poisoned: left.poisoned,
            ..State::default()
        })))
    }
}

impl State {
    fn now(&self) -> AtKill {
        AtKill {
            seen: self.seen.clone(),
            kept: self.kept.clone(),
            since: self.since.clone(),
            poisoned: self.poisoned.clone(),
        }
    }

    /// Changes what is kept, except where that is poisoned.
    fn keep(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        if self.poisoned.is_empty() {
            return change(&mut self.kept);
        }
        let before = self.kept.clone();
        change(&mut self.kept);
        for place in &self.poisoned {
            for at in place.clone() {
                if let Some(byte) = self.kept.get_mut(at) {
                    *byte = before.get(at).copied().unwrap_or(0);
                }
            }
        }
    }

    /// Notes a call and its arguments.
    fn note(&mut self, numbers: [u64; 2], data: &[u8]) {
        // FNV-1a, a number at a time, and then a byte.
        let bytes = data.iter().map(|&byte| u64::from(byte));
        for number in numbers.into_iter().chain(bytes) {
            self.digest = (self.digest ^ number).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Disk for SimDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let from = offset as usize;
        let bytes = state.seen.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.faults.room.is_some_and(|room| len > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.note([1, len], &[]);
        state.seen.resize(len as usize, 0);
        state.since.push(Done::SetLen(len));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.faults.writes_fail {
            return Err(io::Error::other("the cable is out"));
        }
        state.writes += 1;
        state.note([2, offset], data);
        if state.faults.killed_at == Some(state.writes) {
            // In the middle of the call: the kernel has taken a part.
            let part = Done::Write(offset, data[..data.len() / 2].to_vec());
            let mut left = state.now();
            apply(&mut left.seen, &part);
            left.since.push(part);
            state.at_kill = Some(left);
        }
        let done = Done::Write(offset, data.to_vec());
        apply(&mut state.seen, &done);
        state.since.push(done);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.syncs += 1;
        if state.faults.sync_failed_at == Some(state.syncs) {
            // As Linux does: what was not written counts as clean and is never written. The length
            // is not of the pages, and is written with the next sync.
            let since = std::mem::take(&mut state.since).into_iter();
            let (unwritten, lengths): (Vec<_>, _) =
                since.partition(|done| matches!(done, Done::Write(..)));
            let places = unwritten.iter().filter_map(Done::place);
            state.poisoned.extend(places);
            state.since = lengths;
            return Err(io::Error::other("the medium failed"));
        }
        let since = std::mem::take(&mut state.since);
        if state.frozen {
            return Ok(());
        }
        if state.faults.power_lost_at == Some(state.syncs) {
            state.frozen = true;
            if let Some(seed) = state.faults.torn_by {
                state.keep(|kept| tear(kept, &since, seed));
            }
            return Ok(());
        }
        state.keep(|kept| since.iter().for_each(|done| apply(kept, done)));
        Ok(())
    }

    fn forget_cached(&self) {
        let state = &mut *self.0.lock();
        state.poisoned.clear();
        state.seen.clone_from(&state.kept);
        for done in &state.since {
            apply(&mut state.seen, done);
        }
    }

    fn has_room(&self, bytes: u64) -> io::Result<()> {
        let state = self.0.lock();
        match state.faults.room {
            Some(room) if state.seen.len() as u64 + bytes > room => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl Done {
    fn place(&self) -> Option<Range<usize>> {
        match self {
            Self::SetLen(_) => None,
            Self::Write(offset, data) => Some(*offset as usize..*offset as usize + data.len()),
        }
    }
}

fn apply(file: &mut Vec<u8>, done: &Done) {
    match done {
        Done::SetLen(len) => file.resize(*len as usize, 0),
        Done::Write(offset, data) => {
            let (from, to) = (*offset as usize, *offset as usize + data.len());
            if file.len() < to {
                file.resize(to, 0);
            }
            file[from..to].copy_from_slice(data);
        }
    }
}

/// Applies a part of the operations: the seed selects the sectors of each write.
fn tear(file: &mut Vec<u8>, since: &[Done], mut seed: u64) {
    for done in since {
        match done {
            Done::SetLen(len) if *len as usize > file.len() => apply(file, done),
            Done::SetLen(_) => {}
            Done::Write(offset, data) => {
                for (index, sector) in data.chunks(SECTOR).enumerate() {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    if !seed.is_multiple_of(3) {
                        let at = offset + (index * SECTOR) as u64;
                        apply(file, &Done::Write(at, sector.to_vec()));
                    }
                }
            }
        }
    }
}
