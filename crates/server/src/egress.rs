//! Stage 6: bytes to sockets. Owner of the writable bit: nobody else sends, and nobody else knows
//! what a full socket is.

use std::ops::Range;
use std::rc::Rc;

use reactor::SlotKey;
use reactor::{Driver, Sent};
use wire::transport::{Framing, Transport};

use crate::connection::{CloseReason, Connection, Phase, Watched};
use crate::limits::{FRAMES_PER_SEND, SCRATCH_KEPT_BYTES};
use crate::palette::FrameId;
use crate::stats::{Metric, WorkerStats};
use crate::worker::Worker;

/// The writing end of a worker.
#[derive(Debug, Default)]
pub(crate) struct Egress {
    /// Working memory: an answer's bytes.
    scratch: Vec<u8>,
    /// Working memory: where the frames of one session are.
    ranges: Vec<Range<usize>>,
}

/// What became of a batch of frames.
enum Progress {
    /// All are written.
    All,
    /// So many whole frames are, and so many bytes of the next.
    Part { frames: usize, bytes: usize },
    /// Nothing is, and nothing more will be.
    Broken,
}

impl Egress {
    /// An empty buffer, to be [`Self::put_back`].
    pub(crate) fn scratch(&mut self) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch
    }

    pub(crate) fn put_back(&mut self, scratch: Vec<u8>) {
        if scratch.capacity() <= SCRATCH_KEPT_BYTES {
            self.scratch = scratch;
        }
    }
}

impl<S> Connection<S> {
    /// One system call. How much the socket took; `None` when the connection is broken.
    fn send<D: Driver<Socket = S>>(
        &self,
        driver: &mut D,
        stats: &WorkerStats,
        slices: &[&[u8]],
    ) -> Option<usize> {
        stats.add(Metric::Sends, 1);
        match driver.send(&self.socket, slices) {
            Sent::Bytes(taken) => {
                stats.add(Metric::BytesWritten, taken as u64);
                Some(taken)
            }
            Sent::Blocked => Some(0),
            Sent::Failed(_) => None,
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Sends bytes to a connection. What its socket does not take waits in its backlog; more than
    /// that may hold closes it.
    pub(crate) fn write(&mut self, key: SlotKey, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let taken = match connection.phase {
            Phase::Closed => return,
            _ if connection.blocked || bytes.is_empty() => 0,
            _ => match connection.send(&mut self.driver, &self.stats, &[bytes]) {
                Some(taken) => taken,
                None => return self.close(key, CloseReason::Reset),
            },
        };
        if taken < bytes.len()
            && !self.push(key, bytes[taken..].into(), 0..bytes.len() - taken, false)
        {
            self.close(key, CloseReason::Slow);
        }
    }

    /// Sends a session the frames it is owed, in order, in as few system calls as there can be.
    pub(crate) fn write_frames(&mut self, key: SlotKey, frames: &[FrameId]) {
        let Some(connection) = self.connection(key) else {
            return self.shed(frames);
        };
        let (Phase::Open(session), blocked) = (connection.phase, connection.blocked) else {
            return self.shed(frames);
        };
        let (transport, framing) = (session.transport, session.framing);
        if blocked {
            return self.queue_frames(key, transport, framing, frames, 0);
        }
        for (at, batch) in frames.chunks(FRAMES_PER_SEND).enumerate() {
            let later = &frames[at * FRAMES_PER_SEND..];
            match self.send_frames(key, transport, framing, batch) {
                Progress::All => {}
                Progress::Part { frames, bytes } => {
                    let rest = &later[frames..];
                    return self.queue_frames(key, transport, framing, rest, bytes);
                }
                Progress::Broken => {
                    self.shed(later);
                    return self.close(key, CloseReason::Reset);
                }
            }
        }
    }

    /// Sends one batch of frames with one system call.
    fn send_frames(
        &mut self,
        key: SlotKey,
        transport: Transport,
        framing: Framing,
        batch: &[FrameId],
    ) -> Progress {
        let mut ranges = std::mem::take(&mut self.egress.ranges);
        ranges.clear();
        let epoch = self.shared.router.epoch();
        let palette = &mut self.palette;
        ranges.extend(
            batch
                .iter()
                .map(|&frame| palette.encode(frame, transport, framing, epoch)),
        );
        let bytes = self.palette.bytes();
        let (one, mut many);
        let slices = match &*ranges {
            // The usual case, in which the room for many is not even cleared.
            [range] => {
                one = [&bytes[range.clone()]];
                &one[..]
            }
            _ => {
                many = [&[][..]; FRAMES_PER_SEND];
                for (slice, range) in many.iter_mut().zip(&ranges) {
                    *slice = &bytes[range.clone()];
                }
                &many[..ranges.len()]
            }
        };
        let taken = if slices.iter().all(|slice| slice.is_empty()) {
            Some(0)
        } else {
            let connection = self.connections.get_mut(key);
            connection.and_then(|connection| connection.send(&mut self.driver, &self.stats, slices))
        };
        let sent = taken.map_or(Progress::Broken, |taken| {
            self.note_written(batch, &ranges, taken)
        });
        self.egress.ranges = ranges;
        sent
    }

    /// Notes which frames of a batch are written, now that the socket took `taken` bytes of it.
    fn note_written(
        &mut self,
        batch: &[FrameId],
        ranges: &[Range<usize>],
        mut taken: usize,
    ) -> Progress {
        for (at, (&frame, range)) in batch.iter().zip(ranges).enumerate() {
            if taken < range.len() {
                return Progress::Part {
                    frames: at,
                    bytes: taken,
                };
            }
            taken -= range.len();
            self.palette.written(frame);
        }
        Progress::All
    }

    /// Appends frames to a session's backlog, the first of them without its first `taken` bytes.
    fn queue_frames(
        &mut self,
        key: SlotKey,
        transport: Transport,
        framing: Framing,
        frames: &[FrameId],
        mut taken: usize,
    ) {
        for (at, &frame) in frames.iter().enumerate() {
            let epoch = self.shared.router.epoch();
            let mut range = self.palette.encode(frame, transport, framing, epoch);
            range.start += taken;
            taken = 0;
            if range.is_empty() {
                self.palette.written(frame);
                continue;
            }
            let (shared, range) = self.palette.keep(frame, transport, range);
            if !self.push(key, shared, range, true) {
                self.shed(&frames[at..]);
                return self.close(key, CloseReason::Slow);
            }
            self.palette.queued(frame);
        }
    }

    fn shed(&mut self, frames: &[FrameId]) {
        for &frame in frames {
            self.palette.shed(frame);
        }
    }

    /// Sends what waited, now that the socket has room.
    pub(crate) fn on_writable(&mut self, key: SlotKey) {
        while let Some(connection) = self.connections.get_mut(key)
            && connection.blocked
            && connection.phase != Phase::Closed
            && let Some(backlog) = self.backlogs.get_mut(key.index)
        {
            let mut slices = [&[][..]; FRAMES_PER_SEND];
            let count = backlog.front(&mut slices);
            match connection.send(&mut self.driver, &self.stats, &slices[..count]) {
                None => return self.close(key, CloseReason::Reset),
                Some(0) => return,
                Some(taken) => {
                    backlog.advance(taken, self.clock.now);
                    self.stats.take(Metric::BacklogBytes, taken as u64);
                    if backlog.bytes() == 0 {
                        self.unblock(key);
                    }
                }
            }
        }
    }

    /// The backlog is empty: the connection goes on where the full socket had stopped it.
    fn unblock(&mut self, key: SlotKey) {
        self.backlogs.remove(key.index);
        self.stats.take(Metric::BacklogSessions, 1);
        let Some(connection) = self.connection(key) else {
            return;
        };
        connection.blocked = false;
        match connection.phase {
            Phase::Ending { .. } => self.end_sending(key),
            // Requests may have waited for their answers to be taken.
            Phase::Head { .. } => self.read_kept(key, true),
            Phase::Relayed | Phase::Open(_) | Phase::Closed => {}
        }
    }

    /// Appends to a connection's backlog. Returns whether there was room.
    fn push(
        &mut self,
        key: SlotKey,
        shared: Rc<[u8]>,
        range: Range<usize>,
        is_event: bool,
    ) -> bool {
        let Some(connection) = self.connection(key) else {
            return true;
        };
        let begins = !std::mem::replace(&mut connection.blocked, true);
        let length = range.len() as u64;
        let bytes_max = self.shared.settings.backlog_bytes;
        if begins {
            self.stats.add(Metric::BacklogSessions, 1);
        }
        let now = self.clock.now;
        if !self
            .backlogs
            .push(key.index, now, shared, range, is_event, bytes_max)
        {
            return false;
        }
        self.stats.add(Metric::BacklogBytes, length);
        if begins {
            self.watch_writable(key);
            self.time(key);
        }
        true
    }

    /// Has room to send reported, from the first time that a socket is full.
    pub(crate) fn watch_writable(&mut self, key: SlotKey) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.watched != Watched::Input {
            return;
        }
        self.stats.add(Metric::Watches, 1);
        let watching = self.driver.watch_writable(&connection.socket, key.into());
        if watching.is_ok() {
            connection.watched = Watched::Room;
        }
    }
}
