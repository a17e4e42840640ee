//! What simulations see of backlogs.

use std::collections::HashMap;

use super::shared_frame::PIECE_BYTES;
use super::{Backlog, Backlogs, Piece, Shelf};

impl Backlogs {
    /// Returns the memory of all backlogs, counted one by one.
    pub(crate) fn count_memory_bytes(&self) -> usize {
        let backlogs = self.shelves.iter().flat_map(Shelf::values);
        let own = size_of::<(u32, Backlog)>();
        let queues = backlogs.clone().map(|backlog| own + backlog.queue_bytes());
        let pieces = backlogs.flat_map(|backlog| &backlog.pieces);
        let frames = pieces.filter_map(Piece::shared_frame);
        let frames: HashMap<_, _> = frames.collect();
        queues.sum::<usize>() + frames.values().sum::<usize>()
    }
}

impl Backlog {
    /// Returns the memory of the queue.
    fn queue_bytes(&self) -> usize {
        let pieces = self.pieces.iter().filter(|piece| !piece.is_cleared());
        let topics = self.topics.as_ref().map(|topics| topics.memory_bytes());
        pieces.count() * PIECE_BYTES + topics.unwrap_or_default()
    }
}
