//! Backlogs: frames that wait for a full socket. A session that keeps up has none.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use reactor::Tick;

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

/// Part of a frame. The frame's bytes are shared by all backlogs that hold it.
#[derive(Debug)]
struct Piece {
    shared: Rc<[u8]>,
    range: Range<usize>,
    is_event: bool,
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
        let shelf = shelf_of(slot);
        if self.0.len() <= shelf {
            self.0.resize_with(shelf + 1, Shelf::new);
        }
        let backlog = self.0[shelf].entry(slot).or_insert_with(|| Backlog {
            pieces: VecDeque::new(),
            bytes: 0,
            moved: now,
            acknowledged: None,
        });
        if !backlog.pieces.is_empty() && backlog.bytes + range.len() > bytes_max {
            return false;
        }
        backlog.bytes += range.len();
        backlog.pieces.push_back(Piece {
            shared,
            range,
            is_event,
        });
        true
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
        self.pieces.iter().filter(|piece| piece.is_event).count()
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

    /// Fills `slices` with the first pieces. Returns how many there are.
    pub(crate) fn front<'a>(&'a self, slices: &mut [&'a [u8]]) -> usize {
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = &piece.shared[piece.range.clone()];
            count += 1;
        }
        count
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
