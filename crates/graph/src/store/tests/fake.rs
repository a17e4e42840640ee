//! A disk in memory that loses power, tears writes and fails as it is told.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::Disk;

/// Writes are torn at multiples of this: what disks write whole.
const SECTOR: usize = 512;

/// Shared by the test and the store.
#[derive(Debug, Default)]
pub(super) struct FakeDisk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What reads see.
    seen: Vec<u8>,
    /// What a loss of power leaves.
    kept: Vec<u8>,
    /// What was done since the last sync, in order.
    since: Vec<Done>,
    syncs: u64,
    faults: Faults,
    /// Whether power is lost: nothing done is kept any more, and all seems well.
    frozen: bool,
}

#[derive(Debug, Clone)]
enum Done {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// Power is lost within this sync, counted from 1.
    pub(super) power_lost_at: Option<u64>,
    /// Which sectors of that sync are written all the same: a seed. None writes nothing of it.
    pub(super) torn_by: Option<u64>,
    /// This sync fails, and what it should have written is taken for clean.
    pub(super) sync_failed_at: Option<u64>,
    /// The file may grow to so many bytes.
    pub(super) room: Option<u64>,
    /// Every write fails.
    pub(super) writes_fail: bool,
}

impl FakeDisk {
    /// A disk that holds `content`, durably.
    pub(super) fn holding(content: Vec<u8>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            seen: content.clone(),
            kept: content,
            ..State::default()
        })))
    }

    pub(super) fn set(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    pub(super) fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.0.lock().frozen
    }

    /// What is on the disk after a loss of power now.
    pub(super) fn after_power_loss(&self) -> Vec<u8> {
        self.0.lock().kept.clone()
    }

    /// What is in the file when the process dies and the machine goes on.
    pub(super) fn after_kill(&self) -> Vec<u8> {
        self.0.lock().seen.clone()
    }
}

impl Disk for FakeDisk {
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
        state.seen.resize(len as usize, 0);
        state.since.push(Done::SetLen(len));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.faults.writes_fail {
            return Err(io::Error::other("the cable is out"));
        }
        apply(&mut state.seen, &Done::Write(offset, data.to_vec()));
        state.since.push(Done::Write(offset, data.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.syncs += 1;
        if state.faults.sync_failed_at == Some(state.syncs) {
            // As Linux does: what was not written counts as clean and is never written.
            state.since.clear();
            return Err(io::Error::other("the medium failed"));
        }
        let since = std::mem::take(&mut state.since);
        if state.frozen {
            return Ok(());
        }
        if state.faults.power_lost_at == Some(state.syncs) {
            state.frozen = true;
            if let Some(seed) = state.faults.torn_by {
                tear(&mut state.kept, &since, seed);
            }
            return Ok(());
        }
        for done in &since {
            apply(&mut state.kept, done);
        }
        Ok(())
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

/// Does a part of what was to be done: each sector of each write or not, as the seed says.
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
