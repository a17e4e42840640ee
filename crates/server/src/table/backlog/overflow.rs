//! Policies of a backlog that is full: which events make room for others.

use std::collections::HashMap;

use super::Backlog;
use super::shared_frame::{FrameMemory, PIECE_BYTES, Piece, PieceKind};
use crate::slow_policy::SlowPolicy;

/// Result of adding a piece to a backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pushed {
    /// Whether the piece waits.
    pub(crate) has_room: bool,
    /// Events that made room for it.
    pub(crate) dropped: u32,
    /// Events that it replaced.
    pub(crate) replaced: u32,
    /// Bytes of these events.
    pub(crate) freed: usize,
}

/// Events that were dropped from a backlog, because the history has them or most of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DroppedEvents {
    /// Number of those that the history has.
    pub(crate) stored: u32,
    /// Number of the others.
    pub(crate) unstored: u32,
    pub(crate) bytes: usize,
    /// The lowest position of those that the history has.
    pub(crate) first: Option<u64>,
}

/// Places of waiting events by topic, where there are too many to look through.
#[derive(Debug)]
pub(super) struct TopicIndex {
    /// Number of the first piece; the others follow.
    first: u64,
    numbers: HashMap<u64, u64>,
    memory: FrameMemory,
    /// Bytes that count in the memory.
    counted: usize,
}

/// Memory of an entry: two numbers, and a byte of the table.
const ENTRY_BYTES: usize = 2 * size_of::<u64>() + 1;

impl TopicIndex {
    fn new(numbers: HashMap<u64, u64>, memory: FrameMemory) -> Self {
        let mut index = Self {
            first: 0,
            numbers,
            memory,
            counted: 0,
        };
        index.count();
        index
    }

    fn insert(&mut self, topic: u64, number: u64) {
        self.numbers.insert(topic, number);
        self.count();
    }

    /// Counts the entries that there is room for.
    fn count(&mut self) {
        let bytes = self.numbers.capacity() * ENTRY_BYTES;
        self.memory.add(bytes);
        self.memory.take(self.counted);
        self.counted = bytes;
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.capacity() * ENTRY_BYTES
    }

    /// Notes that pieces were removed from the front.
    pub(super) const fn removed_front(&mut self, count: usize) {
        self.first += count as u64;
    }
}

impl Drop for TopicIndex {
    fn drop(&mut self) {
        self.memory.take(self.counted);
    }
}

impl Backlog {
    /// Appends a piece, unless the backlog would exceed `bytes_max` even after other events have
    /// made room by `policy`. The first piece, and the rest of an event that was begun, always have
    /// room.
    pub(super) fn push(
        &mut self,
        piece: Piece,
        policy: SlowPolicy,
        bytes_max: usize,
        scanned_max: usize,
    ) -> Pushed {
        let mut pushed = Pushed::default();
        if policy == SlowPolicy::Latest
            && let Some(topic) = piece.topic()
            && let Some(at) = self.find_topic(topic, scanned_max)
        {
            pushed.freed += self.drop_piece(at);
            pushed.replaced += 1;
        }
        let is_rest = piece.kind == PieceKind::Fixed && piece.events > 0;
        if !is_rest {
            self.make_room(piece.len(), policy, bytes_max, &mut pushed);
        }
        pushed.has_room = is_rest || self.has_room(piece.len(), bytes_max);
        if pushed.has_room {
            self.append(piece);
        } else if piece.kind == PieceKind::Event {
            self.lost += 1;
        }
        pushed
    }

    fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.bytes == 0 || self.cost() + bytes + PIECE_BYTES <= bytes_max
    }

    /// Drops the oldest events until so many bytes have room, if `policy` allows it.
    pub(super) fn make_room(
        &mut self,
        bytes: usize,
        policy: SlowPolicy,
        bytes_max: usize,
        pushed: &mut Pushed,
    ) {
        // What is too large for any backlog empties none.
        while policy.drops()
            && bytes + PIECE_BYTES <= bytes_max
            && !self.has_room(bytes, bytes_max)
            && let Some(at) = self.pieces.iter().position(Piece::is_event)
        {
            pushed.freed += self.drop_piece(at);
            pushed.dropped += 1;
            self.lost += 1;
        }
    }

    /// Returns whether so many bytes more are within a bound. An empty backlog has room for all.
    pub(crate) fn is_within(&self, bytes: usize, bytes_max: usize) -> bool {
        self.has_room(bytes, bytes_max)
    }

    /// Drops all events that wait, except the first if nothing else waits: the socket's full state
    /// must be watched.
    pub(crate) fn drop_events(&mut self) -> DroppedEvents {
        let first = self.pieces.iter().position(|piece| !piece.is_cleared());
        let mut dropped = DroppedEvents::default();
        for (at, piece) in self.pieces.iter_mut().enumerate() {
            let Some(position) = piece.position().filter(|_| first != Some(at)) else {
                continue;
            };
            if piece.is_stored() {
                let before = dropped.first.unwrap_or(u64::MAX);
                dropped.first = Some(before.min(position));
                dropped.stored += 1;
            } else {
                dropped.unstored += 1;
            }
            dropped.bytes += piece.len();
            piece.clear();
        }
        self.bytes -= dropped.bytes;
        self.remove_dropped();
        dropped
    }

    /// Returns whether the policy can free anything: something waits behind what comes first.
    pub(crate) fn can_give_way(&self, policy: SlowPolicy) -> bool {
        let mut rest = self.pieces.iter().filter(|piece| !piece.is_cleared());
        rest.next();
        match policy {
            SlowPolicy::Close => rest.next().is_some(),
            SlowPolicy::CatchUp | SlowPolicy::DropOldest | SlowPolicy::Latest => {
                rest.any(Piece::is_event)
            }
        }
    }

    /// Drops the oldest events until half of the bytes are left, but never all that waits: the
    /// socket's full state must be watched.
    pub(super) fn drop_older_half(&mut self) -> Pushed {
        let mut pushed = Pushed::default();
        let (mut waiting, mut cost) = (self.pieces.len() - self.dropped, self.cost());
        let cost_max = cost / 2;
        for piece in &mut self.pieces {
            if cost <= cost_max || waiting == 1 {
                break;
            }
            if piece.is_event() {
                pushed.freed += piece.len();
                cost -= piece.len() + PIECE_BYTES;
                waiting -= 1;
                pushed.dropped += 1;
                piece.clear();
            }
        }
        self.bytes -= pushed.freed;
        self.lost += u64::from(pushed.dropped);
        self.remove_dropped();
        pushed
    }

    /// Removes the places of pieces that were dropped.
    fn remove_dropped(&mut self) {
        self.pieces.retain(|piece| !piece.is_cleared());
        self.pieces.shrink_to_fit();
        (self.dropped, self.topics) = (0, None);
    }

    fn append(&mut self, piece: Piece) {
        if let (Some(topics), Some(topic)) = (&mut self.topics, piece.topic()) {
            let number = topics.first + self.pieces.len() as u64;
            topics.insert(topic, number);
        }
        self.bytes += piece.len();
        self.pieces.push_back(piece);
    }

    /// Frees an event that waits. Its place stays until it comes to the front, or half of the
    /// places are empty. Returns the number of bytes.
    fn drop_piece(&mut self, at: usize) -> usize {
        let piece = &mut self.pieces[at];
        let bytes = piece.len();
        piece.clear();
        self.bytes -= bytes;
        self.dropped += 1;
        if self.dropped > self.pieces.len() / 2 {
            self.pieces.retain(|piece| !piece.is_cleared());
            self.dropped = 0;
            self.topics = None;
        }
        bytes
    }

    /// Returns the place of the waiting event of this topic.
    fn find_topic(&mut self, topic: u64, scanned_max: usize) -> Option<usize> {
        if self.pieces.len() <= scanned_max {
            let has_topic = |piece: &Piece| piece.topic() == Some(topic);
            return self.pieces.iter().position(has_topic);
        }
        if self.topics.is_none() {
            let memory = self.pieces.iter().find_map(Piece::memory)?.clone();
            let numbers = self.pieces.iter().zip(0..);
            let numbers = numbers.filter_map(|(piece, number)| Some((piece.topic()?, number)));
            let topics = TopicIndex::new(numbers.collect(), memory);
            self.topics = Some(Box::new(topics));
        }
        let topics = self.topics.as_ref()?;
        let number = topics.numbers.get(&topic)?.checked_sub(topics.first)?;
        let at = usize::try_from(number).ok()?;
        // What was there may have been sent or dropped since.
        let has_topic = self.pieces.get(at)?.topic() == Some(topic);
        has_topic.then_some(at)
    }

    /// Notes events that were lost and never waited here.
    pub(crate) const fn lose(&mut self, events: u64) {
        self.lost += events;
    }

    /// Returns what a notice must say so that all events that were dropped are announced, together
    /// with those of a notice that waits; `None` if it says so already.
    pub(crate) fn unannounced(&self) -> Option<u64> {
        let waiting = self.waiting_gap().map_or(0, |_| self.announced);
        (self.lost > 0).then_some(self.lost + waiting)
    }

    /// Returns the place of a notice about dropped events of which nothing was sent.
    fn waiting_gap(&self) -> Option<usize> {
        // The search is short where no event was dropped.
        let before_events = self.pieces.iter().take_while(|piece| !piece.is_event());
        let mut before_events = before_events.enumerate();
        let found = before_events.find(|(_, piece)| piece.kind == PieceKind::Gap);
        found.map(|(at, _)| at)
    }

    /// Inserts the notice about `lost` dropped events where they were: before all events that wait;
    /// or in the place of an earlier notice that waits. The notice may be empty. Returns the number
    /// of bytes that were replaced.
    pub(super) fn insert_gap(&mut self, notice: Option<Piece>, lost: u64) -> usize {
        (self.lost, self.announced) = (0, lost);
        let Some(notice) = notice else {
            return 0;
        };
        self.bytes += notice.len();
        if let Some(at) = self.waiting_gap() {
            let replaced = self.pieces[at].len();
            self.bytes -= replaced;
            self.pieces[at] = notice;
            return replaced;
        }
        let events = self.pieces.iter().position(Piece::is_event);
        let at = events.unwrap_or(self.pieces.len());
        self.pieces.insert(at, notice);
        self.topics = None;
        0
    }
}
