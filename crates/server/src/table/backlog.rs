//! Backlogs: frames that wait for a full socket. A session that keeps up has none.

/// Frames that outlive their turn.
mod shared_frame;
/// Policies of a full backlog.
mod overflow;
/// What simulations see of backlogs.
#[cfg(any(test, feature = "sim"))]
mod sim;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use reactor::Tick;

use super::seal::{RecordGroup, SealedBatch};
use crate::limits::Limits;
use crate::slow_policy::SlowPolicy;
use overflow::TopicIndex;
use shared_frame::PIECE_BYTES;

pub(super) use overflow::DroppedEvents;
pub(crate) use overflow::Pushed;
pub(crate) use shared_frame::{FrameMemory, Piece, PieceKind, SharedFrame};

/// Backlogs of a worker, by slot. Neighbouring slots share a shelf, so that no turn takes time in
/// proportion to all backlogs.
#[derive(Debug)]
pub(crate) struct Backlogs {
    limits: &'static Limits,
    shelves: Vec<Shelf>,
    memory: FrameMemory,
    count: usize,
}

type Shelf = HashMap<u32, Backlog>;

/// Frames of one connection in order, while its socket is full.
#[derive(Debug)]
pub(crate) struct Backlog {
    pieces: VecDeque<Piece>,
    /// Bytes that wait.
    bytes: usize,
    /// Time when the socket last took bytes, or its peer was found to have acknowledged some.
    moved: Tick,
    /// Bytes that the reader had acknowledged when it was last checked. `None` since the socket
    /// last took something.
    acknowledged: Option<u64>,
    /// Pieces that were dropped and still have a place.
    dropped: usize,
    /// Events that were dropped and not announced to the client.
    lost: u64,
    /// Events that the last notice about dropped ones is about.
    announced: u64,
    topics: Option<Box<TopicIndex>>,
}

impl Backlogs {
    pub(crate) fn new(limits: &'static Limits) -> Self {
        Self {
            limits,
            shelves: Vec::new(),
            memory: FrameMemory::default(),
            count: 0,
        }
    }

    const fn shelf_of(&self, slot: u32) -> usize {
        (slot >> self.limits.shelf_bits) as usize
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Backlog> {
        self.shelves.get(self.shelf_of(slot))?.get(&slot)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Backlog> {
        let shelf = self.shelf_of(slot);
        self.shelves.get_mut(shelf)?.get_mut(&slot)
    }

    /// Returns the memory of frames that wait.
    pub(crate) const fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Returns how many there are: as many as full sockets.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Returns the memory of all backlogs: of the frames, and of the queues.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.bytes() + self.count * size_of::<(u32, Backlog)>()
    }

    /// Drops the older half of the events that wait in a backlog, by their bytes. See
    /// [`Backlog::drop_older_half`].
    pub(crate) fn drop_older_half(&mut self, slot: u32) -> Pushed {
        let backlog = self.get_mut(slot);
        backlog.map_or_else(Pushed::default, Backlog::drop_older_half)
    }

    /// Appends a piece to a connection's backlog, which begins now if there is none. See
    /// [`Backlog::push`].
    pub(crate) fn push(
        &mut self,
        slot: u32,
        now: Tick,
        piece: Piece,
        policy: SlowPolicy,
        bytes_max: usize,
    ) -> Pushed {
        let scanned_max = self.limits.scanned_pieces_max;
        self.entry(slot, now)
            .push(piece, policy, bytes_max, scanned_max)
    }

    /// Drops the oldest events of a backlog until so many bytes have room, if `policy` allows it.
    pub(crate) fn make_room(
        &mut self,
        slot: u32,
        bytes: usize,
        policy: SlowPolicy,
        bytes_max: usize,
    ) -> Pushed {
        let mut pushed = Pushed::default();
        if let Some(backlog) = self.get_mut(slot) {
            backlog.make_room(bytes, policy, bytes_max, &mut pushed);
        }
        pushed
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
        let memory = self.memory.clone();
        let backlog = self.entry(slot, now);
        if backlog.bytes > 0 && backlog.cost() + records.len() > bytes_max {
            return false;
        }
        backlog.insert_sealed(&memory, records, groups);
        true
    }

    /// Replaces the first plaintext of a backlog; see [`Backlog::replace_sealed`].
    pub(crate) fn replace_sealed(
        &mut self,
        slot: u32,
        sealed: usize,
        batch: &SealedBatch,
        taken: usize,
        now: Tick,
    ) {
        let memory = self.memory.clone();
        if let Some(backlog) = self.get_mut(slot) {
            backlog.replace_sealed(&memory, sealed, batch, taken, now);
        }
    }

    /// Announces that `lost` events were dropped from a backlog by a notice of these bytes, which
    /// may be empty. Returns the number of bytes of an earlier notice that it replaced.
    pub(crate) fn announce_gap(&mut self, slot: u32, notice: &[u8], lost: u64) -> usize {
        let piece = (!notice.is_empty()).then(|| {
            let frame = self.memory.share(notice);
            Piece::new(frame, 0..notice.len(), 0, PieceKind::Gap)
        });
        let backlog = self.get_mut(slot);
        backlog.map_or(0, |backlog| backlog.insert_gap(piece, lost))
    }

    /// Returns a connection's backlog, which begins now if there is none.
    fn entry(&mut self, slot: u32, now: Tick) -> &mut Backlog {
        let shelf = self.shelf_of(slot);
        if self.shelves.len() <= shelf {
            self.shelves.resize_with(shelf + 1, Shelf::new);
        }
        self.shelves[shelf].entry(slot).or_insert_with(|| {
            self.count += 1;
            Backlog {
                pieces: VecDeque::new(),
                bytes: 0,
                moved: now,
                acknowledged: None,
                dropped: 0,
                lost: 0,
                announced: 0,
                topics: None,
            }
        })
    }

    /// Returns a shelf by its number, from 0 on; `None` beyond the last.
    pub(crate) fn shelf(&self, number: usize) -> Option<&Shelf> {
        self.shelves.get(number)
    }

    /// Removes a connection's backlog.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Backlog> {
        let number = self.shelf_of(slot);
        let shelf = self.shelves.get_mut(number)?;
        let removed = shelf.remove(&slot);
        self.count -= usize::from(removed.is_some());
        if shelf.is_empty() && shelf.capacity() > 64 {
            *shelf = Shelf::new();
        }
        removed
    }
}

impl Backlog {
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of events that wait.
    pub(crate) fn events(&self) -> usize {
        let events = self.pieces.iter().map(|piece| usize::from(piece.events));
        events.sum()
    }

    /// Returns the bytes that count against the bound of a backlog: those that wait, and the queue.
    pub(crate) fn cost(&self) -> usize {
        self.bytes + (self.pieces.len() - self.dropped) * PIECE_BYTES
    }

    /// Returns how long the socket has taken nothing, nor its peer acknowledged anything.
    pub(crate) const fn stalled_for(&self, now: Tick) -> Duration {
        now.since(self.moved)
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
        let first = self.pieces.front();
        first.is_some_and(|piece| piece.kind == PieceKind::Sealed)
    }

    /// Fills `slices` with the first pieces, as far as all are sealed or none is. Returns how many
    /// there are.
    pub(crate) fn front<'a>(&'a self, slices: &mut [&'a [u8]]) -> usize {
        let is_sealed = self.is_sealed();
        let pieces = self.pieces.iter().filter(|piece| !piece.is_cleared());
        let alike = pieces.take_while(|piece| (piece.kind == PieceKind::Sealed) == is_sealed);
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(alike) {
            *slice = piece.bytes();
            count += 1;
        }
        count
    }

    /// Returns the pieces that are not sealed, each with whether it ends an event.
    pub(crate) fn plaintext(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let pieces = self.pieces.iter();
        let waiting = pieces.filter(|piece| !piece.is_cleared() && piece.kind != PieceKind::Sealed);
        waiting.map(|piece| (piece.bytes(), piece.events > 0))
    }

    /// Replaces the first plaintext, `sealed` bytes of it, by what the socket did not take of the
    /// records made of it: nothing, or the tail that begins at `taken`.
    fn replace_sealed(
        &mut self,
        memory: &FrameMemory,
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
        self.insert_sealed(memory, tail, groups);
    }

    /// Inserts TLS records behind earlier ones.
    fn insert_sealed(
        &mut self,
        memory: &FrameMemory,
        records: &[u8],
        groups: impl IntoIterator<Item = RecordGroup>,
    ) {
        if records.is_empty() {
            return;
        }
        let shared = memory.share(records);
        let sealed = self.pieces.iter();
        let sealed = sealed.take_while(|piece| piece.kind == PieceKind::Sealed);
        let place = sealed.count();
        let mut start = 0;
        for (place, RecordGroup { end, events }) in (place..).zip(groups) {
            let shared = Rc::clone(&shared);
            let piece = Piece::new(shared, start..end, events as u16, PieceKind::Sealed);
            self.pieces.insert(place, piece);
            start = end;
        }
        debug_assert_eq!(start, records.len(), "groups end where the records end");
        self.bytes += records.len();
        self.topics = None;
    }

    /// Removes bytes that the socket took.
    pub(crate) fn advance(&mut self, mut taken: usize, now: Tick) {
        assert!(taken <= self.bytes, "a socket takes no more than waits");
        self.moved = now;
        self.acknowledged = None;
        self.bytes -= taken;
        let mut removed = 0;
        while let Some(piece) = self.pieces.front_mut() {
            if piece.len() > taken {
                piece.advance(taken);
                break;
            }
            taken -= piece.len();
            self.dropped -= usize::from(piece.is_cleared());
            self.pieces.pop_front();
            removed += 1;
        }
        if let Some(topics) = &mut self.topics {
            topics.removed_front(removed);
        }
        debug_assert!(
            self.dropped <= self.pieces.len(),
            "dropped pieces have a place"
        );
    }
}
