//! Sending. The only place that sends, and that knows of full sockets.

use std::mem;
use std::ops::Range;
use std::rc::Rc;

use reactor::{Driver, Interest, Sent, SlotKey};

use super::tls_connections::is_tls;
use super::{CloseReason, ConnectionTable, Phase, live};
use crate::frames::{TurnEvent, TurnFrames};
use crate::limits::{FRAMES_PER_SEND, SCRATCH_KEPT_BYTES};
use crate::stats::{Metric, WorkerStats};

/// Frame for a session.
#[derive(Debug, Clone)]
pub(crate) struct OwedFrame {
    pub(crate) event: TurnEvent,
    /// Range of its bytes among those of the turn's frames.
    pub(crate) range: Range<usize>,
}

/// Makes one system call. Returns the number of bytes that the socket took; `None` when the
/// connection is broken.
pub(super) fn send<D: Driver>(
    driver: &mut D,
    stats: &WorkerStats,
    socket: &D::Socket,
    slices: &[&[u8]],
) -> Option<usize> {
    stats.add(Metric::Sends, 1);
    match driver.send(socket, slices) {
        Sent::Bytes(taken) => {
            stats.add(Metric::BytesWritten, taken as u64);
            Some(taken)
        }
        Sent::Blocked => Some(0),
        Sent::Failed(_) => None,
    }
}

impl<D: Driver> ConnectionTable<D> {
    /// Sends bytes to a connection. What its socket does not take waits in its backlog; more than
    /// that may hold closes it.
    pub(crate) fn send(&mut self, key: SlotKey, bytes: &[u8]) {
        let Some(connection) = live(&mut self.slots, key) else {
            return;
        };
        if is_tls(connection.extras) {
            return self.send_sealed(key, bytes);
        }
        let taken = if connection.blocked || bytes.is_empty() {
            0
        } else {
            match send(&mut self.driver, &self.stats, &connection.socket, &[bytes]) {
                Some(taken) => taken,
                None => return self.close(key, CloseReason::Reset),
            }
        };
        let rest = &bytes[taken..];
        if !rest.is_empty() && !self.queue(key, rest.into(), 0..rest.len(), false) {
            self.close(key, CloseReason::Slow);
        }
    }

    /// Sends a session the frames it is owed, in order and in as few system calls as possible, and
    /// counts for each event what became of it.
    pub(crate) fn send_frames(
        &mut self,
        key: SlotKey,
        owed: &[OwedFrame],
        frames: &mut TurnFrames,
    ) {
        let mut rest = owed;
        while let [_, ..] = rest {
            let Some(connection) = self.slots.get(key) else {
                return shed(rest, frames);
            };
            let Phase::Open(_) = connection.phase else {
                return shed(rest, frames);
            };
            if connection.blocked {
                return self.queue_frames(key, rest, 0, frames);
            }
            if is_tls(connection.extras) {
                return self.send_frames_sealed(key, rest, frames);
            }
            let count = rest.len().min(FRAMES_PER_SEND);
            let batch = &rest[..count];
            let bytes = frames.bytes();
            let (one, mut many);
            let slices = match batch {
                // The usual case, in which the room for many is not even cleared.
                [owed] => {
                    one = [&bytes[owed.range.clone()]];
                    &one[..]
                }
                _ => {
                    many = [&[][..]; FRAMES_PER_SEND];
                    for (slice, owed) in many.iter_mut().zip(batch) {
                        *slice = &bytes[owed.range.clone()];
                    }
                    &many[..count]
                }
            };
            let taken = if slices.iter().all(|slice| slice.is_empty()) {
                Some(0)
            } else {
                send(&mut self.driver, &self.stats, &connection.socket, slices)
            };
            let Some(mut taken) = taken else {
                shed(rest, frames);
                return self.close(key, CloseReason::Reset);
            };
            for (at, owed) in batch.iter().enumerate() {
                if taken < owed.range.len() {
                    return self.queue_frames(key, &rest[at..], taken, frames);
                }
                taken -= owed.range.len();
                frames.count_written(owed.event);
            }
            rest = &rest[count..];
        }
    }

    /// Appends frames to a session's backlog, the first of them without its first `taken` bytes.
    pub(super) fn queue_frames(
        &mut self,
        key: SlotKey,
        owed: &[OwedFrame],
        mut taken: usize,
        frames: &mut TurnFrames,
    ) {
        let Some(Phase::Open(session)) = self.slots.get(key).map(|connection| connection.phase)
        else {
            return shed(owed, frames);
        };
        for (at, frame) in owed.iter().enumerate() {
            let range = frame.range.start + taken..frame.range.end;
            taken = 0;
            if range.is_empty() {
                frames.count_written(frame.event);
                continue;
            }
            let (shared, range) = frames.share(frame.event, session.transport, range);
            if !self.queue(key, shared, range, true) {
                shed(&owed[at..], frames);
                return self.close(key, CloseReason::Slow);
            }
            frames.count_queued(frame.event);
        }
    }

    /// Sends the backlog, as the socket has room. Returns the phase of a connection whose backlog
    /// became empty, which may continue where the full socket had stopped it.
    pub(crate) fn flush(&mut self, key: SlotKey) -> Option<Phase> {
        loop {
            let connection = live(&mut self.slots, key).filter(|connection| connection.blocked)?;
            if is_tls(connection.extras) {
                return self.flush_sealed(key);
            }
            let backlog = self.backlogs.get_mut(key.index)?;
            let mut slices = [&[][..]; FRAMES_PER_SEND];
            let count = backlog.front(&mut slices);
            let taken = send(
                &mut self.driver,
                &self.stats,
                &connection.socket,
                &slices[..count],
            );
            match taken {
                None => {
                    self.close(key, CloseReason::Reset);
                    return None;
                }
                Some(0) => return None,
                Some(taken) => {
                    backlog.advance(taken, self.clock.now);
                    self.stats.take(Metric::BacklogBytes, taken as u64);
                    if backlog.bytes() == 0 {
                        return self.end_backlog(key);
                    }
                }
            }
        }
    }

    /// Removes a backlog that has become empty. Returns the phase of its connection.
    pub(super) fn end_backlog(&mut self, key: SlotKey) -> Option<Phase> {
        self.backlogs.remove(key.index);
        self.stats.take(Metric::BacklogSessions, 1);
        let connection = live(&mut self.slots, key)?;
        connection.blocked = false;
        Some(connection.phase)
    }

    /// Appends to a connection's backlog. Returns whether there was room.
    pub(super) fn queue(
        &mut self,
        key: SlotKey,
        shared: Rc<[u8]>,
        range: Range<usize>,
        is_event: bool,
    ) -> bool {
        let Some(begins) = self.block(key) else {
            return true;
        };
        let length = range.len();
        let (now, bytes_max) = (self.clock.now, self.limits.backlog_bytes);
        if !self
            .backlogs
            .push(key.index, now, shared, range, is_event, bytes_max)
        {
            return false;
        }
        self.queued(key, length, begins);
        true
    }

    /// Marks a connection's socket as full. Returns whether it was not so before; `None` for a
    /// closed connection.
    pub(super) fn block(&mut self, key: SlotKey) -> Option<bool> {
        let connection = live(&mut self.slots, key)?;
        let begins = !mem::replace(&mut connection.blocked, true);
        if begins {
            self.stats.add(Metric::BacklogSessions, 1);
        }
        Some(begins)
    }

    /// Counts bytes that were added to a backlog, and watches for room if it `begins` with them.
    pub(super) fn queued(&mut self, key: SlotKey, bytes: usize, begins: bool) {
        self.stats.add(Metric::BacklogBytes, bytes as u64);
        if begins {
            self.watch_writable(key);
            self.arm(key);
        }
    }

    /// Starts to report room to send, when a watched socket is full for the first time.
    fn watch_writable(&mut self, key: SlotKey) {
        if let Some(connection) = self.slots.get_mut(key)
            && connection.watched == Some(Interest::Readable)
        {
            self.stats.add(Metric::Watches, 1);
            let watched = self.driver.watch_writable(&connection.socket, key.into());
            if watched.is_ok() {
                connection.watched = Some(Interest::ReadableAndWritable);
            }
        }
    }

    /// Takes an empty buffer for an answer, to be [put back](Self::put_back).
    pub(crate) fn scratch(&mut self) -> Vec<u8> {
        let mut scratch = mem::take(&mut self.scratch);
        scratch.clear();
        scratch
    }

    /// Keeps a buffer for the next answer, unless it has grown too large.
    pub(crate) fn put_back(&mut self, scratch: Vec<u8>) {
        if scratch.capacity() <= SCRATCH_KEPT_BYTES {
            self.scratch = scratch;
        }
    }
}

pub(super) fn shed(owed: &[OwedFrame], frames: &mut TurnFrames) {
    for frame in owed {
        frames.count_shed(frame.event);
    }
}
