//! The start: reads the history back from disk.
//!
//! Decides what a crash, a loss of power and a damaged file mean for clients. A torn end is cut
//! off. Anything else that is missing becomes a gap, which clients are told of. Must never ignore a
//! hole, nor give out a position again.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use router::Restored;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::record::{self, Record};
use crate::segment::{self, Boundary, EPOCH_BYTES_MAX, HEADER_BYTES, Header, HeaderError};
use crate::settings::{Limits, Run};
use crate::state::{self, State};
use crate::work::{Closed, Resumed};

/// How the last run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// There was none.
    New,
    /// In order: everything is there.
    Clean,
    /// It was killed, and everything that was acknowledged is there.
    Killed,
    /// Events that were acknowledged may be lost.
    Lossy,
}

/// What was found on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// How the last run ended.
    pub start: Start,
    /// Epoch of the history.
    pub epoch: String,
    /// Events read.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes that were cut from the end of the last segment.
    pub cut: u64,
    /// Files that could not be read, or not to their end.
    pub damaged: Vec<String>,
    /// Whether there is a hole between segments: some are missing or damaged.
    pub has_hole: bool,
}

impl Recovery {
    /// Returns what an administrator should know, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.start == Start::Killed {
            warnings.push(
                "the server did not end as it should; all events that were acknowledged are in \
                 the history; clients that have seen later ones are told to load their state anew"
                    .to_owned(),
            );
        }
        if self.cut > 0 {
            warnings.push(format!(
                "the last {} bytes of the history had not been written whole, and were cut",
                self.cut
            ));
        }
        if !self.damaged.is_empty() {
            let files = self.damaged.join(", ");
            warnings.push(format!("the history is damaged in {files}; check the disk"));
        }
        if self.has_hole {
            warnings.push("a part of the history is missing".to_owned());
        }
        if self.start == Start::Lossy || self.has_hole {
            warnings.push(
                "events may be lost: clients that come back with a cursor from before are told to \
                 load their state anew"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Reads the log in a directory, and calls `restore` with each part of it, in order.
pub(crate) fn recover<D: Disk>(
    disk: D,
    path: &Path,
    limits: &Limits,
    run: &Run,
    restore: &mut dyn FnMut(&Restored<'_>),
) -> Result<(Resumed<D>, Recovery), OpenError> {
    let mut numbers: Vec<u64> = disk
        .list()
        .map_err(OpenError::disk(path))?
        .iter()
        .filter_map(|name| segment::number(name))
        .collect();
    numbers.sort_unstable();
    let (state, is_new, is_torn) = find_state(&disk, path, run, !numbers.is_empty())?;
    let mut reader = Reader {
        disk,
        path: path.to_owned(),
        epoch: state.epoch.clone(),
        restore,
        end: None,
        closed: VecDeque::new(),
        recovery: Recovery {
            start: Start::New,
            epoch: state.epoch.clone(),
            events: 0,
            bytes: 0,
            cut: 0,
            damaged: Vec::new(),
            has_hole: false,
        },
        may_be_torn: state.ended.is_none() || is_torn,
        is_damaged_tail: false,
    };
    for (index, &number) in numbers.iter().enumerate() {
        reader.read(number, index + 1 == numbers.len())?;
    }
    let (from, boundary) = if is_new {
        (0, Boundary::Complete)
    } else {
        reader.last_boundary(&state, is_torn, limits, run)
    };
    let after = reader.end.unwrap_or(0);
    (reader.restore)(&boundary.restored(from));
    let resumed = Resumed {
        disk: reader.disk,
        state,
        closed: reader.closed,
        next_number: numbers.last().map_or(1, |last| last + 1),
        after,
        from,
        boundary,
    };
    Ok((resumed, reader.recovery))
}

/// Returns the state, whether it is new, and whether a slot of it cannot be read.
fn find_state(
    disk: &impl Disk,
    path: &Path,
    run: &Run,
    has_segments: bool,
) -> Result<(State, bool, bool), OpenError> {
    if let Some((state, is_torn)) = State::find(disk, path)? {
        return Ok((state, false, is_torn));
    }
    if has_segments {
        return Err(OpenError::state(path, "is missing"));
    }
    let failed = OpenError::disk(path);
    match disk.remove(state::UNFINISHED) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let state = State {
        counter: 0,
        epoch: run.new_epoch.chars().take(EPOCH_BYTES_MAX).collect(),
        reserved: 0,
        ended: Some(0),
        syncs_receipts: false,
        has_failed: false,
        boot: String::new(),
    };
    state.create(disk).map_err(failed)?;
    Ok((state, true, false))
}

/// Segments read so far, in order.
struct Reader<'a, D> {
    disk: D,
    path: PathBuf,
    epoch: String,
    restore: &'a mut dyn FnMut(&Restored<'_>),
    /// Last position in the log.
    end: Option<u64>,
    closed: VecDeque<Closed>,
    recovery: Recovery,
    /// Whether the end of the last segment may be torn: the last run did not end in order.
    may_be_torn: bool,
    /// Whether the end of the last segment was on disk and can no longer be read.
    is_damaged_tail: bool,
}

impl<D: Disk> Reader<'_, D> {
    fn read(&mut self, number: u64, is_last: bool) -> Result<(), OpenError> {
        let name = segment::name(number);
        let path = self.path.clone();
        let failed = OpenError::disk(&path);
        let file = self.disk.read(&name).map_err(&failed)?;
        self.recovery.bytes += file.len() as u64;
        let header = match Header::read(&file) {
            Ok(header) if header.epoch == self.epoch && header.number == number => header,
            Err(HeaderError::Newer(format)) => {
                let file = self.path.join(name);
                return Err(OpenError::Newer { file, format });
            }
            // It was being created: an event is added only to a whole one.
            Err(HeaderError::Damaged) if is_last && file.len() <= HEADER_BYTES => {
                self.recovery.cut += file.len() as u64;
                return self.disk.remove(&name).map_err(failed);
            }
            _ => {
                self.recovery.damaged.push(name);
                self.is_damaged_tail |= is_last;
                let (end, bytes) = (self.end.unwrap_or(0), file.len() as u64);
                self.closed.push_back(Closed { number, end, bytes });
                return Ok(());
            }
        };
        self.begin(&header);
        let read = self.read_records(&file, header.salt, header.from);
        let mut bytes = file.len();
        let end = self.end.unwrap_or(header.from);
        let is_whole = read == bytes;
        let is_torn = || self.may_be_torn && !record::is_damage(&file, header.salt, read, end);
        if is_last && (is_whole || is_torn()) {
            self.recovery.cut += (bytes - read) as u64;
            self.cut(&name, read).map_err(failed)?;
            bytes = read;
        } else if !is_whole {
            self.recovery.damaged.push(name);
            self.is_damaged_tail |= is_last;
        }
        let bytes = bytes as u64;
        self.closed.push_back(Closed { number, end, bytes });
        Ok(())
    }

    /// Passes on what happened between the previous segment and this one.
    fn begin(&mut self, header: &Header) {
        let boundary = match self.end {
            // Earlier segments were removed, or are missing.
            None => Boundary::Lost,
            Some(end) if end != header.after && header.boundary != Boundary::Lost => {
                self.recovery.has_hole = true;
                Boundary::Lost
            }
            Some(_) => header.boundary,
        };
        (self.restore)(&boundary.restored(header.from));
        self.end = Some(header.from);
    }

    /// Reads records as long as they are whole and ascend. Returns their size in bytes, with the
    /// header.
    fn read_records(&mut self, file: &[u8], salt: u32, from: u64) -> usize {
        let (mut offset, mut end) = (HEADER_BYTES, from);
        while let Some((record, size)) = record::read(file, salt, offset) {
            if let Record::History(part) = record {
                match &part {
                    Restored::Event(event) if event.position > end => {
                        end = event.position;
                        self.recovery.events += 1;
                    }
                    &(Restored::Lost(to) | Restored::Skipped(to)) if to >= end => end = to,
                    Restored::Note(_) => {}
                    _ => break,
                }
                (self.restore)(&part);
            }
            offset += size;
        }
        self.end = Some(end);
        offset
    }

    /// Cuts off the torn end of a segment, so that no later start takes it for damage, and frees
    /// what was reserved behind it.
    fn cut(&self, name: &str, len: usize) -> io::Result<()> {
        let file = self.disk.open(name)?;
        file.set_len(len as u64)?;
        file.sync()
    }

    /// Returns the position after which this run continues, and what lies before it.
    fn last_boundary(
        &mut self,
        state: &State,
        is_torn: bool,
        limits: &Limits,
        run: &Run,
    ) -> (u64, Boundary) {
        let end = self.end.unwrap_or(0);
        if let Some(ended) = state.ended.filter(|_| !is_torn) {
            // A run that died before it had a segment has left nothing.
            let has_begun = ended > 0 || !self.recovery.damaged.is_empty();
            let is_whole = self.end.map_or(!has_begun, |end| end == ended);
            if is_whole && !self.is_damaged_tail {
                self.recovery.start = Start::Clean;
                return (ended, Boundary::Complete);
            }
            self.recovery.start = Start::Lossy;
            self.recovery.has_hole = true;
            return (end.max(ended), Boundary::Lost);
        }
        // A torn slot may have reserved more, but not more than this.
        let torn = 2 * limits.reserved_positions * u64::from(is_torn);
        let from = end.max(state.reserved.saturating_add(torn));
        // Receipts waited for the disk, or for the kernel, which has been running since.
        let is_same_boot = !run.boot.is_empty() && run.boot == state.boot;
        let is_kept = state.syncs_receipts || is_same_boot;
        let is_lost = !is_kept || state.has_failed || self.is_damaged_tail || self.end.is_none();
        if is_lost {
            self.recovery.start = Start::Lossy;
            (from, Boundary::Lost)
        } else {
            self.recovery.start = Start::Killed;
            (from, Boundary::Abandoned)
        }
    }
}
