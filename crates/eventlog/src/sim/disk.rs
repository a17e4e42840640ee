//! A disk in memory that dies, loses power, tears writes and fails as it is told.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};

/// Writes are torn at multiples of this.
const SECTOR: usize = 512;

/// A simulated directory. Shared by the test and the log.
#[derive(Debug, Clone, Default)]
pub struct SimDirectory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: Vec<FileState>,
    /// Files by name, as programs see them.
    names: BTreeMap<String, usize>,
    /// Files by name, as a loss of power leaves them.
    kept_names: BTreeMap<String, usize>,
    /// Operations that change something, so far.
    operations: u64,
    faults: Faults,
    is_dead: bool,
}

#[derive(Debug, Clone, Default)]
struct FileState {
    seen: Vec<u8>,
    kept: Vec<u8>,
    /// What was done since the last sync, in order.
    since: Vec<Done>,
}

#[derive(Debug, Clone)]
enum Done {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// The server dies in this operation, counted from 1, and nothing is done any more.
    pub dies_at: Option<u64>,
    /// This operation fails, if it is one of a kind that can.
    pub fails_at: Option<u64>,
    /// All files together may have so many bytes.
    pub room: Option<usize>,
    /// Every operation that changes something fails.
    pub all_fail: bool,
}

/// File that is open for writing.
#[derive(Debug)]
pub(crate) struct SimFile {
    disk: SimDirectory,
    file: usize,
}

impl SimDirectory {
    /// Sets what goes wrong from now on.
    pub fn set(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// Returns the number of operations that changed something.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Whether the server has died in one of them.
    pub fn is_dead(&self) -> bool {
        self.0.lock().is_dead
    }

    /// The disk as the next run finds it when the machine went on.
    pub fn after_kill(&self) -> Self {
        self.restarted(|file| file.seen.clone(), |state| state.names.clone())
    }

    /// The disk as the next run finds it after a loss of power: what was not synced is there in
    /// part, as `seed` says.
    pub fn after_power_loss(&self, mut seed: u64) -> Self {
        self.restarted(
            |file| {
                let mut bytes = file.kept.clone();
                file.since
                    .iter()
                    .for_each(|done| tear(&mut bytes, done, &mut seed));
                bytes
            },
            |state| state.kept_names.clone(),
        )
    }

    fn restarted(
        &self,
        mut content: impl FnMut(&FileState) -> Vec<u8>,
        names: impl FnOnce(&State) -> BTreeMap<String, usize>,
    ) -> Self {
        let state = self.0.lock();
        let contents = state.files.iter().map(|file| {
            let bytes = content(file);
            FileState {
                seen: bytes.clone(),
                kept: bytes,
                since: Vec::new(),
            }
        });
        let names = names(&state);
        Self(Arc::new(Mutex::new(State {
            files: contents.collect(),
            kept_names: names.clone(),
            names,
            ..State::default()
        })))
    }

    /// Returns the names of all files.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// Changes a file behind the log's back.
    #[cfg(test)]
    pub(crate) fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        let file = state.names[name];
        let file = &mut state.files[file];
        change(&mut file.seen);
        file.kept = file.seen.clone();
    }

    #[cfg(test)]
    pub(crate) fn delete(&self, name: &str) {
        let mut state = self.0.lock();
        state.names.remove(name);
        state.kept_names.remove(name);
    }

    #[cfg(test)]
    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        let state = self.0.lock();
        state.files[state.names[name]].seen.clone()
    }
}

impl State {
    /// Counts an operation. `part` is done of one in which the server dies.
    fn begin(&mut self, part: impl FnOnce(&mut Self)) -> io::Result<()> {
        if self.is_dead {
            return Err(io::Error::other("the server is dead"));
        }
        self.operations += 1;
        if self.faults.dies_at == Some(self.operations) {
            part(self);
            self.is_dead = true;
            return Err(io::Error::other("the server dies"));
        }
        if self.faults.all_fail || self.faults.fails_at == Some(self.operations) {
            return Err(io::Error::other("the cable is out"));
        }
        Ok(())
    }

    fn has_room(&self, more: usize) -> io::Result<()> {
        let used: usize = self
            .names
            .values()
            .map(|&file| self.files[file].seen.len())
            .sum();
        match self.faults.room {
            Some(room) if more > 0 && used + more > room => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }
}

impl Disk for SimDirectory {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.0.lock();
        let file = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.files[*file].seen.clone())
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.0.lock();
        state.begin(|_| ())?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.push(FileState::default());
        let file = state.files.len() - 1;
        state.names.insert(name.to_owned(), file);
        let disk = self.clone();
        Ok(SimFile { disk, file })
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let state = self.0.lock();
        let file = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        let disk = self.clone();
        Ok(SimFile { disk, file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(|_| ())?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(|_| ())?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.begin(|_| ())?;
        state.kept_names = state.names.clone();
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let done = |bytes: &[u8]| Done::Write(offset as usize, bytes.to_vec());
        state.begin(|state| state.files[self.file].apply(done(&bytes[..bytes.len() / 2])))?;
        let len = state.files[self.file].seen.len();
        let room = (offset as usize + bytes.len()).saturating_sub(len);
        if let Err(error) = state.has_room(room) {
            // As a file system does, some of it is written.
            state.files[self.file].apply(done(&bytes[..bytes.len() / 2]));
            return Err(error);
        }
        state.files[self.file].apply(done(bytes));
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.begin(|_| ())?;
        state.has_room(bytes as usize)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.begin(|_| ())?;
        state.files[self.file].apply(Done::SetLen(len as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let result = state.begin(|_| ());
        let is_dead = state.is_dead;
        let file = &mut state.files[self.file];
        if !is_dead {
            // As Linux does: what a failed sync did not write counts as clean and is never written.
            let since = std::mem::take(&mut file.since);
            if result.is_ok() {
                since.iter().for_each(|done| apply(&mut file.kept, done));
            }
        }
        result
    }
}

impl FileState {
    fn apply(&mut self, done: Done) {
        apply(&mut self.seen, &done);
        self.since.push(done);
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

/// Does a part of what was to be done: each sector of it or not, as the seed says.
fn tear(bytes: &mut Vec<u8>, done: &Done, seed: &mut u64) {
    match done {
        Done::SetLen(len) if *len > bytes.len() => apply(bytes, done),
        Done::SetLen(_) => {}
        Done::Write(offset, data) => {
            for (index, sector) in data.chunks(SECTOR).enumerate() {
                *seed ^= *seed << 13;
                *seed ^= *seed >> 7;
                *seed ^= *seed << 17;
                if !seed.is_multiple_of(3) {
                    apply(
                        bytes,
                        &Done::Write(offset + index * SECTOR, sector.to_vec()),
                    );
                }
            }
        }
    }
}
