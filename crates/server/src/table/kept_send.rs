//! Sending frames of events that the caller keeps: it sends what the socket does not take later.

use reactor::{Driver, SlotKey};

use super::backlog::{Piece, PieceKind};
use super::send::{Queued, send};
use super::{CloseReason, ConnectionTable, Extras, live};
use crate::slow_policy::SlowPolicy;

/// Frame of an event that the caller keeps, among bytes that hold frames one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptFrame {
    /// Index after its last byte.
    pub(crate) end: usize,
    /// Position of its event.
    pub(crate) position: u64,
    /// Whether the event was counted as queued.
    pub(crate) is_held: bool,
}

impl<D: Driver> ConnectionTable<D> {
    /// Sends frames to a session that has no backlog, as many as its socket takes. Only the last
    /// of them may wait in a backlog, in part or whole, so that a full socket is watched. Returns
    /// the number of frames that are sent or wait.
    pub(crate) fn send_kept(&mut self, key: SlotKey, bytes: &[u8], frames: &[KeptFrame]) -> usize {
        let Some(connection) = live(&mut self.slots, key).filter(|connection| !connection.blocked)
        else {
            return 0;
        };
        let end = frames.last().map_or(0, |frame| frame.end);
        debug_assert_eq!(end, bytes.len(), "the frames are all of the bytes");
        if bytes.is_empty() {
            // Payloads of the wire of 2008 may be empty.
            return frames.len();
        }
        if connection.extras.has(Extras::TLS) {
            return self.send_kept_sealed(key, bytes, frames);
        }
        let taken = send(&mut self.driver, &self.stats, &connection.socket, &[bytes]);
        let Some(taken) = taken else {
            self.close(key, CloseReason::Reset);
            return 0;
        };
        let whole = frames.partition_point(|frame| frame.end <= taken);
        let Some(partial) = frames.get(whole) else {
            return whole;
        };
        self.queue_kept(key, &bytes[taken..partial.end], partial.is_held);
        whole + 1
    }

    /// Seals frames and sends them until the socket is full; see [`Self::send_kept`].
    fn send_kept_sealed(&mut self, key: SlotKey, bytes: &[u8], frames: &[KeptFrame]) -> usize {
        // Frames that are sealed to their ends, and the bytes sealed.
        let (mut whole, mut sealed) = (0, 0);
        while whole < frames.len() {
            let Some(connection) = live(&mut self.slots, key) else {
                return whole;
            };
            if connection.blocked {
                break;
            }
            let Some(tls) = self.tls.get_mut(key.index) else {
                return whole;
            };
            let mut start = sealed;
            let parts = frames[whole..].iter().map(|frame| {
                let part = &bytes[start..frame.end];
                start = frame.end;
                (part, frame.is_held)
            });
            let Ok(parts) = self.batch.seal(tls, parts) else {
                self.close(key, CloseReason::Reset);
                return whole;
            };
            if !self.send_batch(key) {
                return whole;
            }
            whole += parts.whole;
            sealed += parts.bytes;
        }
        let begins = whole.checked_sub(1).map_or(0, |last| frames[last].end);
        match frames.get(whole) {
            // What was begun must be ended before anything else is sent.
            Some(partial) if sealed > begins => {
                self.queue_kept(key, &bytes[sealed..partial.end], partial.is_held);
                whole + 1
            }
            _ => whole,
        }
    }

    /// Keeps the rest of a frame until the socket has room.
    fn queue_kept(&mut self, key: SlotKey, rest: &[u8], is_held: bool) {
        let frame = self.backlogs.memory().share(rest);
        let events = u16::from(is_held);
        let piece = Piece::new(frame, 0..rest.len(), events, PieceKind::Fixed);
        if self.queue(key, piece, SlowPolicy::Close) == Queued::Full {
            self.close(key, CloseReason::Slow);
        }
    }
}
