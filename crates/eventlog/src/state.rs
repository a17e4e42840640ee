//! The state file: epoch, reserved positions, and how the last run ended.
//!
//! Ensures that no position is given out twice: a run reserves positions on disk before it gives
//! them out. The file has two slots that are written in turn, so that a torn write leaves the
//! previous state.

use std::io;
use std::path::Path;

use crc32fast::hash;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::segment::{EPOCH_BYTES_MAX, FORMAT, HeaderError, check_format, push_text, take_text};

/// Name of the file.
pub(crate) const STATE: &str = "state";

/// Name of the file while it is being created.
pub(crate) const UNFINISHED: &str = "state.new";

const MAGIC: [u8; 8] = *b"enckehis";

/// Size of a slot in bytes: a disk writes that much atomically.
const SLOT_BYTES: usize = 512;

/// Distance between the slots, in bytes: they are never in the same block of a disk.
const SLOT_DISTANCE: usize = 4096;

/// Longest name of a boot, in bytes.
const BOOT_BYTES_MAX: usize = 64;

/// State of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Increases with each write.
    pub(crate) counter: u64,
    pub(crate) epoch: String,
    /// Neither this position nor a later one was given out.
    pub(crate) reserved: u64,
    /// Last position when the log was ended; `None` while it is in use.
    pub(crate) ended: Option<u64>,
    /// Whether receipts wait for a sync.
    pub(crate) syncs_receipts: bool,
    /// Whether events may have been acknowledged that are not on disk, because it failed.
    pub(crate) has_failed: bool,
    /// Name of the boot of the machine; empty if it is not known.
    pub(crate) boot: String,
}

impl State {
    fn to_slot(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        let ended = self.ended.map_or(u64::MAX, |position| position);
        for number in [self.counter, self.reserved, ended] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(u8::from(self.syncs_receipts) | u8::from(self.has_failed) << 1);
        push_text(&mut bytes, &self.epoch);
        push_text(&mut bytes, &self.boot);
        bytes.resize(SLOT_BYTES - 4, 0);
        bytes.extend_from_slice(&hash(&bytes).to_le_bytes());
        bytes.try_into().expect("filled to its size")
    }

    fn read_slot(slot: &[u8]) -> Result<Self, HeaderError> {
        check_format(slot, &MAGIC)?;
        let slot = slot.get(..SLOT_BYTES).ok_or(HeaderError::Damaged)?;
        let (bytes, checksum) = slot.split_at(SLOT_BYTES - 4);
        if hash(bytes).to_le_bytes() != checksum {
            return Err(HeaderError::Damaged);
        }
        Self::parse(bytes).ok_or(HeaderError::Damaged)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let u64_at = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let flags = *bytes.get(36)?;
        let (epoch, rest) = take_text(bytes.get(37..)?)?;
        let (boot, _) = take_text(rest)?;
        Some(Self {
            counter: u64_at(12)?,
            reserved: u64_at(20)?,
            ended: u64_at(28).filter(|&position| position != u64::MAX),
            syncs_receipts: flags & 1 != 0,
            has_failed: flags & 2 != 0,
            epoch,
            boot,
        })
    }

    /// Reads the state of a log from its newest slot, and returns whether the other one cannot be
    /// read: it may have been newer. `None` if there is no file.
    ///
    /// # Errors
    ///
    /// When the disk fails, no slot can be read, or a newer program has written one.
    pub(crate) fn find(disk: &impl Disk, path: &Path) -> Result<Option<(Self, bool)>, OpenError> {
        let file = match disk.read(STATE) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::disk(path)(error)),
        };
        let slots = [0, SLOT_DISTANCE].map(|at| Self::read_slot(file.get(at..).unwrap_or(&[])));
        let mut newest: Option<Self> = None;
        let mut is_torn = false;
        for slot in slots {
            match slot {
                Ok(state) if newest.as_ref().is_none_or(|it| it.counter < state.counter) => {
                    newest = Some(state);
                }
                Ok(_) => {}
                Err(HeaderError::Damaged) => is_torn = true,
                Err(HeaderError::Newer(format)) => {
                    let file = path.join(STATE);
                    return Err(OpenError::Newer { file, format });
                }
            }
        }
        match newest {
            Some(state) => Ok(Some((state, is_torn))),
            None => Err(OpenError::state(path, "is damaged")),
        }
    }

    /// Creates the file of a new log, atomically.
    pub(crate) fn create(&self, disk: &impl Disk) -> io::Result<()> {
        let mut bytes = vec![0; SLOT_DISTANCE + SLOT_BYTES];
        bytes[..SLOT_BYTES].copy_from_slice(&self.to_slot());
        bytes[SLOT_DISTANCE..].copy_from_slice(&self.to_slot());
        let file = disk.create(UNFINISHED)?;
        file.write(0, &bytes)?;
        file.sync()?;
        disk.rename(UNFINISHED, STATE)?;
        disk.sync()
    }

    /// Overwrites the older slot, and syncs it.
    pub(crate) fn write(&mut self, disk: &impl Disk) -> io::Result<()> {
        self.counter += 1;
        let slot = (self.counter % 2) * SLOT_DISTANCE as u64;
        let written = disk.open(STATE).and_then(|file| {
            file.write(slot, &self.to_slot())?;
            file.sync()
        });
        if written.is_err() {
            // The next attempt must leave the other slot alone, which is whole.
            self.counter -= 1;
        }
        written
    }
}

const _: () = assert!(12 + 24 + 1 + 2 + EPOCH_BYTES_MAX + BOOT_BYTES_MAX + 4 <= SLOT_BYTES);

/// Returns the part of a boot's name that is stored.
pub(crate) fn boot_name(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_graphic)
        .take(BOOT_BYTES_MAX)
        .collect()
}
