//! Backlogs: frames that wait for a full socket. A session that keeps up has none.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use reactor::Tick;

use super::seal::{RecordGroup, SealedBatch};
use crate::limits::SLOTS_PER_SHELF;

/// Backlogs of a worker, by slot. Neighbouring slots share a shelf, so that no turn takes time in
/// proportion to all backlogs.
#[derive(Debug, Default)]
pub(crate) struct Backlogs(Vec<Shelf>);

type Shelf = HashMap<u32, Backlog>;

/// Frames of one connection in order, while its socket is full.
#[derive(Debug)]
pub(crate) struct Backlog {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Time when the socket last took bytes, or its peer was found to have acknowledged some.
    moved: Tick,
    /// Bytes that the reader had acknowledged when it was last checked. `None` since the socket
    /// last took something.
    acknowledged: Option<u64>,
}

/// Part of a frame, whose bytes are shared by all backlogs that hold it; or TLS records.
#[derive(Debug)]
struct Piece {
    shared: Rc<[u8]>,
    range: Range<usize>,
    /// Events that are delivered when all of it is taken.
    events: u32,
    /// Whether these are TLS records, to be sent exactly as they are. Only the first pieces of a
    /// backlog can be sealed.
    is_sealed: bool,
}

impl Backlogs {
    pub(crate) fn get(&self, slot: u32) -> Option<&Backlog> {
        self.0.get(shelf_of(slot))?.get(&slot)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Backlog> {
        self.0.get_mut(shelf_of(slot))?.get_mut(&slot)
    }

    /// Appends bytes to a connection's backlog, which begins now if there is none. Returns whether
    /// there was room: the first piece always has it.
    pub(crate) fn push(
        &mut self,
        slot: u32,
        now: Tick,
        shared: Rc<[u8]>,
        range: Range<usize>,
        is_event: bool,
        bytes_max: usize,
    ) -> bool {
        let backlog = self.entry(slot, now);
        if !backlog.pieces.is_empty() && backlog.bytes + range.len() > bytes_max {
            return false;
        }
        backlog.bytes += range.len();
        backlog.pieces.push_back(Piece {
            shared,
            range,
            events: u32::from(is_event),
            is_sealed: false,
        });
        true
    }

    /// Adds TLS records to a connection's backlog, which begins now if there is none: behind
    /// earlier records and before all plaintext, which is sealed later. Each record group ends at
    /// an index into `records` and completes some events. Returns whether there was room: an empty
    /// backlog always has it.
    pub(crate) fn push_sealed(
        &mut self,
        slot: u32,
        now: Tick,
        records: &[u8],
        groups: impl IntoIterator<Item = RecordGroup>,
        bytes_max: usize,
    ) -> bool {
        let backlog = self.entry(slot, now);
        if !backlog.pieces.is_empty() && backlog.bytes + records.len() > bytes_max {
            return false;
        }
        backlog.insert_sealed(records, groups);
        true
    }

    /// Returns a connection's backlog, which begins now if there is none.
    fn entry(&mut self, slot: u32, now: Tick) -> &mut Backlog {
        let shelf = shelf_of(slot);
        if self.0.len() <= shelf {
            self.0.resize_with(shelf + 1, Shelf::new);
        }
        self.0[shelf].entry(slot).or_insert_with(|| Backlog {
            pieces: VecDeque::new(),
            bytes: 0,
            moved: now,
            acknowledged: None,
        })
    }

    /// Returns a shelf by its number, from 0 on; `None` beyond the last.
    pub(crate) fn shelf(&self, number: usize) -> Option<&Shelf> {
        self.0.get(number)
    }

    /// Removes a connection's backlog.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Backlog> {
        let shelf = self.0.get_mut(shelf_of(slot))?;
        let removed = shelf.remove(&slot);
        if shelf.is_empty() && shelf.capacity() > 64 {
            *shelf = Shelf::new();
        }
        removed
    }
}

const fn shelf_of(slot: u32) -> usize {
    (slot / SLOTS_PER_SHELF) as usize
}

impl Backlog {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of events that wait.
    pub(crate) fn events(&self) -> usize {
        self.pieces.iter().map(|piece| piece.events as usize).sum()
    }

    /// When the reader must be checked, if it may take nothing for `stall_timeout`: half-way, to
    /// learn what it has acknowledged by then, and at the end.
    pub(crate) fn deadline(&self, stall_timeout: Duration) -> Tick {
        self.moved.after(match self.acknowledged {
            None => stall_timeout / 2,
            Some(_) => stall_timeout,
        })
    }

    /// Records how many bytes the peer has acknowledged. Returns whether its deadline is renewed.
    pub(crate) fn renew_deadline(&mut self, acknowledged: u64, now: Tick) -> bool {
        match self.acknowledged.replace(acknowledged) {
            None => true,
            Some(before) => {
                let reads = acknowledged > before;
                if reads {
                    self.moved = now;
                }
                reads
            }
        }
    }

    /// Returns whether the first bytes are TLS records.
    pub(crate) fn is_sealed(&self) -> bool {
        self.pieces.front().is_some_and(|piece| piece.is_sealed)
    }

    /// Fills `slices` with the first pieces, as far as all are sealed or none is. Returns how many
    /// there are.
    pub(crate) fn front<'a>(&'a self, slices: &mut [&'a [u8]]) -> usize {
        let is_sealed = self.is_sealed();
        let pieces = self.pieces.iter();
        let alike = pieces.take_while(|piece| piece.is_sealed == is_sealed);
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(alike) {
            *slice = &piece.shared[piece.range.clone()];
            count += 1;
        }
        count
    }

    /// Returns the pieces that are not sealed, each with whether it ends an event.
    pub(crate) fn plaintext(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let pieces = self.pieces.iter().filter(|piece| !piece.is_sealed);
        pieces.map(|piece| (&piece.shared[piece.range.clone()], piece.events > 0))
    }

    /// Replaces the first plaintext, `sealed` bytes of it, by what the socket did not take of the
    /// records made of it: nothing, or the tail that begins at `taken`.
    pub(crate) fn replace_sealed(
        &mut self,
        sealed: usize,
        batch: &SealedBatch,
        taken: usize,
        now: Tick,
    ) {
        debug_assert!(!self.is_sealed(), "earlier records are sent first");
        let (moved, acknowledged) = (self.moved, self.acknowledged);
        self.advance(sealed, now);
        if taken == 0 {
            (self.moved, self.acknowledged) = (moved, acknowledged);
        }
        let (tail, groups) = batch.tail(taken);
        self.insert_sealed(tail, groups);
    }

    /// Inserts TLS records behind earlier ones.
    fn insert_sealed(&mut self, records: &[u8], groups: impl IntoIterator<Item = RecordGroup>) {
        if records.is_empty() {
            return;
        }
        let shared: Rc<[u8]> = records.into();
        let sealed = self.pieces.iter().take_while(|piece| piece.is_sealed);
        let place = sealed.count();
        let mut start = 0;
        for (place, RecordGroup { end, events }) in (place..).zip(groups) {
            let piece = Piece {
                shared: Rc::clone(&shared),
                range: start..end,
                events,
                is_sealed: true,
            };
            self.pieces.insert(place, piece);
            start = end;
        }
        debug_assert_eq!(start, records.len(), "groups end where the records end");
        self.bytes += records.len();
    }

    /// Removes bytes that the socket took.
    pub(crate) fn advance(&mut self, mut taken: usize, now: Tick) {
        self.moved = now;
        self.acknowledged = None;
        self.bytes -= taken;
        while let Some(piece) = self.pieces.front_mut() {
            if piece.range.len() > taken {
                piece.range.start += taken;
                break;
            }
            taken -= piece.range.len();
            self.pieces.pop_front();
        }
    }
}
