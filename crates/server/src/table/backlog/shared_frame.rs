//! Frames that outlive their turn, shared by all backlogs that hold them, and their memory.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Memory of the frames that the backlogs of a worker keep, and of the queues that hold them. A
/// frame counts once, however many backlogs share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrameMemory(Rc<Cell<usize>>);

impl FrameMemory {
    /// Returns the bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.0.get()
    }

    /// Makes a frame to be shared of bytes that are no event.
    pub(crate) fn share(&self, bytes: &[u8]) -> Rc<SharedFrame> {
        self.share_event(bytes, 0, 0, false)
    }

    /// Makes a frame to be shared of the event at a position. `topic` tells events of different
    /// subjects or types apart, and `is_stored` whether the history stores it.
    pub(crate) fn share_event(
        &self,
        bytes: &[u8],
        position: u64,
        topic: u64,
        is_stored: bool,
    ) -> Rc<SharedFrame> {
        let frame = SharedFrame {
            bytes: bytes.into(),
            position,
            topic,
            is_stored,
            memory: self.clone(),
        };
        self.add(frame.memory_bytes());
        Rc::new(frame)
    }

    pub(super) fn add(&self, bytes: usize) {
        self.0.set(self.0.get() + bytes);
    }

    pub(super) fn take(&self, bytes: usize) {
        let before = self.0.get();
        debug_assert!(bytes <= before, "memory that was not counted");
        self.0.set(before - bytes);
    }
}

/// Bytes that backlogs share. Lives until the last of them is sent.
#[derive(Debug)]
pub(crate) struct SharedFrame {
    bytes: Box<[u8]>,
    position: u64,
    topic: u64,
    is_stored: bool,
    memory: FrameMemory,
}

impl SharedFrame {
    const fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

impl Drop for SharedFrame {
    fn drop(&mut self) {
        self.memory.take(self.memory_bytes());
    }
}

/// What may become of a piece before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PieceKind {
    /// A whole event, of which nothing was sent: it can be dropped.
    Event,
    /// The rest of an event that was begun, or bytes that are no event: they must be sent.
    Fixed,
    /// A notice about dropped events, of which nothing was sent: it can be replaced by another.
    Gap,
    /// TLS records, to be sent exactly as they are. Only the first pieces of a backlog can be
    /// sealed.
    Sealed,
}

/// Part of a shared frame in a backlog. A piece that was dropped has no bytes until it is removed.
#[derive(Debug)]
pub(crate) struct Piece {
    frame: Option<Rc<SharedFrame>>,
    start: u32,
    end: u32,
    /// Events that are delivered when all of it is taken.
    pub(super) events: u16,
    pub(super) kind: PieceKind,
}

/// Memory of a piece in its queue.
pub(super) const PIECE_BYTES: usize = 24;
const _: () = assert!(size_of::<Piece>() == PIECE_BYTES);

impl Piece {
    pub(crate) fn new(
        frame: Rc<SharedFrame>,
        range: Range<usize>,
        events: u16,
        kind: PieceKind,
    ) -> Self {
        assert!(range.start <= range.end && range.end <= frame.bytes.len());
        assert!(u32::try_from(range.end).is_ok(), "a frame is below 4 GiB");
        frame.memory.add(PIECE_BYTES);
        let (start, end) = (range.start as u32, range.end as u32);
        Self {
            frame: Some(frame),
            start,
            end,
            events,
            kind,
        }
    }

    /// Makes a piece of all of a frame that is no event.
    pub(crate) fn of(frame: Rc<SharedFrame>) -> Self {
        let length = frame.bytes.len();
        Self::new(frame, 0..length, 0, PieceKind::Fixed)
    }

    /// Returns the address of the frame that the piece is a part of, and its memory.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn shared_frame(&self) -> Option<(*const SharedFrame, usize)> {
        let frame = self.frame.as_ref()?;
        Some((Rc::as_ptr(frame), frame.memory_bytes()))
    }

    /// Returns the memory that counts the frame.
    pub(super) fn memory(&self) -> Option<&FrameMemory> {
        self.frame.as_ref().map(|frame| &frame.memory)
    }

    /// Returns whether the piece was dropped.
    pub(super) const fn is_cleared(&self) -> bool {
        self.frame.is_none()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.frame {
            Some(frame) => &frame.bytes[self.start as usize..self.end as usize],
            None => &[],
        }
    }

    pub(crate) const fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns the topic of a whole event that waits.
    pub(super) fn topic(&self) -> Option<u64> {
        let frame = self.frame.as_ref()?;
        (self.kind == PieceKind::Event).then_some(frame.topic)
    }

    /// Returns the position of a whole event that waits.
    pub(super) fn position(&self) -> Option<u64> {
        let frame = self.frame.as_ref()?;
        (self.kind == PieceKind::Event).then_some(frame.position)
    }

    /// Returns whether the history stores the event.
    pub(super) fn is_stored(&self) -> bool {
        self.frame.as_ref().is_some_and(|frame| frame.is_stored)
    }

    /// Returns whether the piece is a whole event that waits.
    pub(crate) const fn is_event(&self) -> bool {
        matches!(self.kind, PieceKind::Event) && self.frame.is_some()
    }

    /// Removes the first `count` bytes, which are fewer than there are.
    pub(super) const fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.len(), "more bytes than the piece has");
        self.start += count as u32;
        if count > 0 && matches!(self.kind, PieceKind::Event | PieceKind::Gap) {
            self.kind = PieceKind::Fixed;
        }
    }

    /// Frees the piece's bytes. What is left is empty.
    pub(super) fn clear(&mut self) {
        if let Some(frame) = self.frame.take() {
            frame.memory.take(PIECE_BYTES);
        }
        self.start = self.end;
        self.events = 0;
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.clear();
    }
}
