//! The segment being written.
//!
//! Must never overwrite anything, nor write to a segment again after a failure.

use std::io;
use std::time::Duration;

use crate::disk::{Disk, DiskFile};
use crate::record::{self, SYNCED_BYTES};
use crate::segment::{self, HEADER_BYTES, Header};

/// Segment being written.
pub(crate) struct Active<F> {
    pub(crate) file: F,
    pub(crate) number: u64,
    pub(crate) salt: u32,
    pub(crate) offset: u64,
    /// Last position in the log.
    pub(crate) end: u64,
    /// Position up to which everything is synced.
    pub(crate) synced: u64,
    /// Position in the last synced mark.
    pub(crate) marked: u64,
    /// Time of the first write since the last sync.
    pub(crate) unsynced_since: Option<Duration>,
}

impl<F: DiskFile> Active<F> {
    /// Creates a segment that has only its header, and syncs it. Reserves `room` bytes on the disk.
    pub(crate) fn create<D: Disk<File = F>>(
        disk: &D,
        header: &Header,
        room: u64,
    ) -> io::Result<Self> {
        let name = segment::name(header.number);
        let file = disk.create(&name)?;
        let created = file
            .reserve(room)
            .and_then(|()| file.write(0, &header.to_bytes()))
            .and_then(|()| file.sync())
            .and_then(|()| disk.sync());
        if let Err(error) = created {
            drop(file);
            // If it stays, the next start finds a segment without events.
            let _ = disk.remove(&name);
            return Err(error);
        }
        Ok(Self {
            file,
            number: header.number,
            salt: header.salt,
            offset: HEADER_BYTES as u64,
            end: header.from,
            synced: header.from,
            marked: header.from,
            unsynced_since: None,
        })
    }

    /// Returns whether a record of this size belongs in the next segment.
    pub(crate) const fn is_full(&self, record_bytes: usize, segment_bytes: u64) -> bool {
        let is_empty = self.offset == HEADER_BYTES as u64;
        !is_empty && self.offset + record_bytes as u64 > segment_bytes
    }

    /// Returns a synced mark, unless the last one says the same.
    pub(crate) fn take_mark(&mut self) -> Option<Vec<u8>> {
        debug_assert!(
            self.marked <= self.synced && self.synced <= self.end,
            "a mark tells of records that are synced"
        );
        if self.marked == self.synced {
            return None;
        }
        self.marked = self.synced;
        let mut mark = Vec::with_capacity(SYNCED_BYTES);
        record::push_synced(&mut mark, self.synced);
        Some(mark)
    }

    /// Appends as many records as the segment has room for, at least one. Returns their size, in
    /// bytes.
    pub(crate) fn write(&mut self, records: &mut [u8], segment_bytes: u64) -> io::Result<usize> {
        let (mut written, mut end) = (0, self.end);
        while let Some(size) = record::size(&records[written..]) {
            let offset = self.offset + written as u64;
            if written > 0 && offset + size as u64 > segment_bytes {
                break;
            }
            let record = &mut records[written..written + size];
            record::seal(record, self.salt, offset);
            end = record::reaches(record).unwrap_or(end);
            written += size;
        }
        debug_assert!(end >= self.end, "positions in a segment ascend");
        self.file.write(self.offset, &records[..written])?;
        self.offset += written as u64;
        self.end = end;
        Ok(written)
    }
}
