//! A disk in memory that loses power, tears writes and fails as a test says.
//!
//! A write is seen at once, and survives a loss of power from the next sync of its file on; a name
//! does from the next sync of the directory on. A sync that fails leaves what it should have
//! written as it was, and no later sync writes it, as on Linux. Nor is what is written to the same
//! place later, until the file is forgotten: on ext4 it may be lost.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

/// Size of a sector, in bytes, which disks write atomically. Writes are torn between sectors.
const SECTOR: usize = 512;

/// Directory on a simulated disk. Shared by the test and the code under test.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

/// File of a simulated disk.
#[derive(Debug, Clone)]
pub struct File {
    disk: Disk,
    number: usize,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Content>,
    /// Files by name, as programs see them.
    names: BTreeMap<String, usize>,
    /// Files by name, as a loss of power leaves them.
    kept_names: BTreeMap<String, usize>,
    /// Operations that change something, so far, and those of them that write or sync a file.
    operations: u64,
    writes: u64,
    syncs: u64,
    faults: Faults,
    is_killed: bool,
    /// Power is lost: later operations succeed, and nothing of them is kept.
    is_frozen: bool,
    /// A number for all that was written so far, and where.
    digest: u64,
}

#[derive(Debug, Clone, Default)]
struct Content {
    /// Bytes for reads.
    seen: Vec<u8>,
    /// Bytes after a loss of power.
    kept: Vec<u8>,
    /// Changes since the last sync, in order.
    since: Vec<Done>,
    /// Where syncs have failed: nothing is kept there.
    poisoned: Vec<Range<usize>>,
}

#[derive(Debug, Clone)]
enum Done {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

/// An operation, counted from 1 since the disk was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nth {
    /// Of all that change something.
    Operation(u64),
    /// Of the writes.
    Write(u64),
    /// Of the syncs of files.
    Sync(u64),
}

/// Faults of a disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The process is killed in the middle of this operation. Later ones fail.
    pub killed_at: Option<Nth>,
    /// This operation fails.
    pub failed_at: Option<Nth>,
    /// Power is lost within this sync of a file, counted from 1. Later operations succeed.
    pub power_lost_at: Option<u64>,
    /// Seed that selects the sectors of that sync which are written all the same. Without it, none.
    pub torn_by: Option<u64>,
    /// All files together may have so many bytes.
    pub room: Option<u64>,
    /// Every write fails.
    pub writes_fail: bool,
    /// Every operation that changes something fails.
    pub all_fail: bool,
}

impl From<Vec<u8>> for Disk {
    /// Makes a disk with one file, durably.
    fn from(content: Vec<u8>) -> Self {
        let names = BTreeMap::from([(String::new(), 0)]);
        Self::of(State {
            files: vec![Content::synced(content)],
            kept_names: names.clone(),
            names,
            ..State::default()
        })
    }
}

impl Disk {
    fn of(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// Sets what goes wrong from now on.
    pub fn set(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// Returns the number of operations that changed something so far.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Returns the number of writes so far.
    pub fn writes(&self) -> u64 {
        self.0.lock().writes
    }

    /// Returns the number of syncs of files so far.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// Returns a number for all that was written so far, and where.
    pub fn digest(&self) -> u64 {
        self.0.lock().digest
    }

    /// Returns the size of all files together, in bytes.
    pub fn used(&self) -> u64 {
        self.0.lock().used()
    }

    /// Whether power was lost in an operation.
    pub fn is_frozen(&self) -> bool {
        self.0.lock().is_frozen
    }

    /// Whether the process was killed in an operation.
    pub fn is_killed(&self) -> bool {
        self.0.lock().is_killed
    }

    /// Returns the disk as the next process finds it when this one is killed now, or was. What no
    /// sync has written yet can still be lost with the power.
    pub fn after_kill(&self) -> Self {
        let state = self.0.lock();
        Self::of(State {
            files: state.files.clone(),
            names: state.names.clone(),
            kept_names: state.kept_names.clone(),
            ..State::default()
        })
    }

    /// Returns the disk as the next process finds it when power is lost now, or was. Of what was
    /// not synced, the sectors are there that the seed selects. Without a seed, none.
    pub fn after_power_loss(&self, torn_by: impl Into<Option<u64>>) -> Self {
        let state = self.0.lock();
        let mut seed = torn_by.into().filter(|_| !state.is_frozen);
        let files = state.files.iter().map(|file| {
            let mut kept = file.kept.clone();
            if let Some(seed) = &mut seed {
                tear(&mut kept, &file.since, seed);
            }
            Content::synced(kept)
        });
        Self::of(State {
            files: files.collect(),
            names: state.kept_names.clone(),
            kept_names: state.kept_names.clone(),
            ..State::default()
        })
    }

    /// Returns the names of all files.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// If there is none of this name.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let number = self.0.lock().find(name)?;
        let disk = self.clone();
        Ok(File { disk, number })
    }

    /// Returns the file of a disk that was made with one.
    pub fn file(&self) -> File {
        self.open("").expect("a disk with one file")
    }

    /// Creates a file, which must not exist.
    ///
    /// # Errors
    ///
    /// If it exists, and those that the test has set.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let mut state = self.0.lock();
        state.begin(Kind::Other)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.push(Content::default());
        let number = state.files.len() - 1;
        state.names.insert(name.to_owned(), number);
        let disk = self.clone();
        Ok(File { disk, number })
    }

    /// Renames a file, and replaces the file that has the new name.
    ///
    /// # Errors
    ///
    /// If it does not exist, and those that the test has set.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(Kind::Other)?;
        let file = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// If it does not exist, and those that the test has set.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(Kind::Other)?;
        state.find(name)?;
        state.names.remove(name);
        Ok(())
    }

    /// Makes all creations, renames and removals survive a loss of power.
    ///
    /// # Errors
    ///
    /// Those that the test has set.
    pub fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(Kind::Other)?;
        if !state.is_frozen {
            state.kept_names = state.names.clone();
        }
        Ok(())
    }

    /// Changes a file durably, behind the back of the code under test.
    pub fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        let number = state.names[name];
        let mut content = std::mem::take(&mut state.files[number].seen);
        change(&mut content);
        state.files[number] = Content::synced(content);
    }

    /// Deletes a file durably, behind the back of the code under test.
    pub fn delete(&self, name: &str) {
        let mut state = self.0.lock();
        state.names.remove(name);
        state.kept_names.remove(name);
    }
}

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Sync,
    Other,
}

impl State {
    fn find(&self, name: &str) -> io::Result<usize> {
        let number = self.names.get(name).copied();
        number.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Counts an operation. Fails if the process is dead or dies in it, or if the test says so.
    fn begin(&mut self, kind: Kind) -> io::Result<()> {
        if self.is_killed {
            return Err(io::Error::other("the process is dead"));
        }
        self.operations += 1;
        self.writes += u64::from(kind == Kind::Write);
        self.syncs += u64::from(kind == Kind::Sync);
        let is_now = |nth: Option<Nth>| match nth {
            None => false,
            Some(Nth::Operation(at)) => at == self.operations,
            Some(Nth::Write(at)) => kind == Kind::Write && at == self.writes,
            Some(Nth::Sync(at)) => kind == Kind::Sync && at == self.syncs,
        };
        if is_now(self.faults.killed_at) {
            self.is_killed = true;
            return Err(io::Error::other("the process is killed"));
        }
        let Faults {
            writes_fail,
            all_fail,
            ..
        } = self.faults;
        if all_fail || writes_fail && kind == Kind::Write || is_now(self.faults.failed_at) {
            return Err(io::Error::other("the cable is out"));
        }
        Ok(())
    }

    fn used(&self) -> u64 {
        let files = self.names.values().map(|&file| self.files[file].seen.len());
        files.sum::<usize>() as u64
    }

    fn has_room(&self, more: u64) -> io::Result<()> {
        match self.faults.room {
            Some(room) if more > 0 && self.used() + more > room => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    /// Changes a file, for reads.
    fn apply(&mut self, file: usize, done: Done) {
        let (at, data) = match &done {
            Done::Write(offset, data) => (*offset, &**data),
            Done::SetLen(len) => (*len, &[][..]),
        };
        // FNV-1a, a number at a time, and then a byte.
        let bytes = data.iter().map(|&byte| u64::from(byte));
        for number in [file as u64, at as u64].into_iter().chain(bytes) {
            self.digest = (self.digest ^ number).wrapping_mul(0x0100_0000_01b3);
        }
        self.files[file].apply(done);
    }
}

impl File {
    /// Returns the size of the file, in bytes.
    pub fn len(&self) -> u64 {
        self.disk.0.lock().files[self.number].seen.len() as u64
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the file.
    pub fn content(&self) -> Vec<u8> {
        self.disk.0.lock().files[self.number].seen.clone()
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// If the file ends before.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.disk.0.lock();
        let from = offset as usize;
        let bytes = state.files[self.number].seen.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// Writes `bytes` from `offset` on. A write for which there is no room, and one in which the
    /// process is killed, is made in part.
    ///
    /// # Errors
    ///
    /// If there is no room, and those that the test has set.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let was_killed = state.is_killed;
        let begun = state.begin(Kind::Write);
        let end = offset + bytes.len() as u64;
        let len = state.files[self.number].seen.len() as u64;
        let room = state.has_room(end.saturating_sub(len));
        let is_made_in_part = match begun {
            Ok(()) => room.is_err(),
            Err(_) => state.is_killed && !was_killed,
        };
        let made = match is_made_in_part {
            true => &bytes[..bytes.len() / 2],
            false => bytes,
        };
        if begun.is_ok() || is_made_in_part {
            state.apply(self.number, Done::Write(offset as usize, made.to_vec()));
        }
        begun.and(room)
    }

    /// Reserves room for so many bytes more, without making the file longer.
    ///
    /// # Errors
    ///
    /// If there is no room, and those that the test has set.
    pub fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.begin(Kind::Other)?;
        state.has_room(bytes)
    }

    /// Truncates or extends the file. New bytes are zero.
    ///
    /// # Errors
    ///
    /// If there is no room, and those that the test has set.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.begin(Kind::Other)?;
        let before = state.files[self.number].seen.len() as u64;
        state.has_room(len.saturating_sub(before))?;
        state.apply(self.number, Done::SetLen(len as usize));
        Ok(())
    }

    /// Makes everything written survive a loss of power.
    ///
    /// # Errors
    ///
    /// Those that the test has set.
    pub fn sync(&self) -> io::Result<()> {
        let state = &mut *self.disk.0.lock();
        let begun = state.begin(Kind::Sync);
        let file = &mut state.files[self.number];
        if begun.is_err() && !state.is_killed {
            file.fail_sync();
        }
        begun?;
        let since = std::mem::take(&mut file.since);
        if state.is_frozen {
            return Ok(());
        }
        if state.faults.power_lost_at == Some(state.syncs) {
            state.is_frozen = true;
            if let Some(mut seed) = state.faults.torn_by {
                file.keep(|kept| tear(kept, &since, &mut seed));
            }
            return Ok(());
        }
        file.keep(|kept| since.iter().for_each(|done| apply(kept, done)));
        Ok(())
    }

    /// Forgets what memory has of the file and takes for written.
    pub fn forget_cached(&self) {
        let file = &mut self.disk.0.lock().files[self.number];
        file.poisoned.clear();
        file.seen.clone_from(&file.kept);
        for done in &file.since {
            apply(&mut file.seen, done);
        }
    }
}

impl Content {
    fn synced(bytes: Vec<u8>) -> Self {
        Self {
            seen: bytes.clone(),
            kept: bytes,
            ..Self::default()
        }
    }

    fn apply(&mut self, done: Done) {
        apply(&mut self.seen, &done);
        self.since.push(done);
    }

    /// Takes what was written for clean. The length is not of the pages, and is written with the
    /// next sync.
    fn fail_sync(&mut self) {
        let since = std::mem::take(&mut self.since).into_iter();
        let (unwritten, lengths): (Vec<_>, _) =
            since.partition(|done| matches!(done, Done::Write(..)));
        self.poisoned
            .extend(unwritten.iter().filter_map(Done::place));
        self.since = lengths;
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
}

impl Done {
    fn place(&self) -> Option<Range<usize>> {
        match self {
            Self::SetLen(_) => None,
            Self::Write(offset, data) => Some(*offset..*offset + data.len()),
        }
    }
}

fn apply(bytes: &mut Vec<u8>, done: &Done) {
    match done {
        Done::SetLen(len) => bytes.resize(*len, 0),
        Done::Write(offset, data) => {
            let end = offset + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset..end].copy_from_slice(data);
        }
    }
}

/// Applies a part of the changes: the seed selects the sectors of each write.
fn tear(bytes: &mut Vec<u8>, since: &[Done], seed: &mut u64) {
    for done in since {
        match done {
            Done::SetLen(len) if *len > bytes.len() => apply(bytes, done),
            Done::SetLen(_) => {}
            Done::Write(offset, data) => {
                for (index, sector) in data.chunks(SECTOR).enumerate() {
                    *seed ^= *seed << 13;
                    *seed ^= *seed >> 7;
                    *seed ^= *seed << 17;
                    if !seed.is_multiple_of(3) {
                        let at = offset + index * SECTOR;
                        apply(bytes, &Done::Write(at, sector.to_vec()));
                    }
                }
            }
        }
    }
}
