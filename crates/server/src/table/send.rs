//! Sending. The only place that sends, and that knows of full sockets.

use std::mem;
use std::ops::Range;

use reactor::{Driver, Interest, Sent, SlotKey};
use wire::frame;
use wire::notice::Notice;

use super::backlog::{Backlog, Piece, PieceKind, Pushed};
use super::{CloseReason, ConnectionTable, Extras, Phase, live};
use crate::frames::{TurnEvent, TurnFrames, push};
use crate::limits::{FRAMES_PER_SEND, SCRATCH_KEPT_BYTES};
use crate::open_session::Session;
use crate::slow_policy::SlowPolicy;
use crate::stats::{Metric, WorkerStats};

/// Room for a notice about dropped events.
const NOTICE_BYTES: usize = 128;

/// Frame for a session.
#[derive(Debug, Clone)]
pub(crate) struct OwedFrame {
    pub(crate) event: TurnEvent,
    /// Range of its bytes among those of the turn's frames.
    pub(crate) range: Range<usize>,
}

/// What became of a piece for a backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    /// It waits, or its connection is closed.
    Waits,
    /// It is an event that the session's policy drops.
    Dropped,
    /// There is no room for it: the session is too slow.
    Full,
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
        if connection.extras.has(Extras::TLS) {
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
        if !rest.is_empty() {
            self.queue_bytes(key, rest);
        }
    }

    /// Appends bytes that are no event to a connection's backlog, behind the notice about dropped
    /// events if there is one: a last word must stay the last.
    pub(super) fn queue_bytes(&mut self, key: SlotKey, bytes: &[u8]) {
        if let Some(session) = self.session(key) {
            let (needed, bytes_max) = (bytes.len() + NOTICE_BYTES, self.live.backlog_bytes);
            let pushed = self
                .backlogs
                .make_room(key.index, needed, session.slow, bytes_max);
            self.count_dropped(pushed);
            self.announce_gap(key);
        }
        let piece = Piece::of(self.backlogs.memory().share(bytes));
        if self.queue(key, piece, SlowPolicy::Close) == Queued::Full {
            self.close_slow(key);
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
            if connection.extras.has(Extras::TLS) {
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
                count_sent(owed, frames);
            }
            debug_assert_eq!(taken, 0, "a socket takes no more than it is given");
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
        let Some(session) = self.session(key) else {
            return shed(owed, frames);
        };
        for (at, frame) in owed.iter().enumerate() {
            let range = frame.range.start + taken..frame.range.end;
            let kind = match mem::take(&mut taken) {
                0 => PieceKind::Event,
                _ => PieceKind::Fixed,
            };
            if range.is_empty() {
                count_sent(frame, frames);
                continue;
            }
            let memory = self.backlogs.memory();
            let (shared, range) = frames.share(frame.event, session.encoding, range, memory);
            if kind == PieceKind::Event && self.must_catch_up(key, session, range.len()) {
                return self.fall_behind(key, session, &owed[at..], frames);
            }
            let piece = Piece::new(shared, range, 1, kind);
            match self.queue(key, piece, session.slow) {
                Queued::Waits => frames.count_queued(frame.event),
                Queued::Dropped => frames.count_shed(frame.event),
                Queued::Full => {
                    shed(&owed[at..], frames);
                    return self.close_slow(key);
                }
            }
        }
    }

    /// Sends the backlog, as the socket has room. Returns the phase of a connection whose backlog
    /// became empty, which may continue where the full socket had stopped it.
    pub(crate) fn flush(&mut self, key: SlotKey) -> Option<Phase> {
        loop {
            let connection = live(&mut self.slots, key).filter(|connection| connection.blocked)?;
            if connection.extras.has(Extras::TLS) {
                return self.flush_sealed(key);
            }
            self.announce_gap(key);
            let connection = self.slots.get(key)?;
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
        let ended = self.backlogs.remove(key.index);
        assert!(ended.is_some_and(|it| it.bytes() == 0), "bytes still wait");
        self.stats.take(Metric::BacklogSessions, 1);
        let connection = live(&mut self.slots, key)?;
        connection.blocked = false;
        Some(connection.phase)
    }

    /// Appends a piece to a connection's backlog, for which other events make room by `policy`.
    pub(super) fn queue(&mut self, key: SlotKey, piece: Piece, policy: SlowPolicy) -> Queued {
        let Some(begins) = self.block(key) else {
            return Queued::Waits;
        };
        let length = piece.len();
        let (now, bytes_max) = (self.clock.now, self.live.backlog_bytes);
        let is_event = piece.is_event();
        let pushed = self.backlogs.push(key.index, now, piece, policy, bytes_max);
        self.count_dropped(pushed);
        if pushed.has_room {
            self.queued(key, length, begins);
            return Queued::Waits;
        }
        if is_event && policy.drops() {
            self.stats.add(Metric::DroppedOldest, 1);
            return Queued::Dropped;
        }
        Queued::Full
    }

    /// Counts the events that were dropped from a backlog.
    pub(super) fn count_dropped(&self, pushed: Pushed) {
        let (dropped, replaced) = (u64::from(pushed.dropped), u64::from(pushed.replaced));
        self.stats.take(Metric::BacklogBytes, pushed.freed as u64);
        self.stats.add(Metric::DeliveriesLost, dropped + replaced);
        self.stats.add(Metric::DroppedOldest, dropped);
        self.stats.add(Metric::DroppedLatest, replaced);
    }

    /// Tells a session that it has lost events: ahead of all events that it is not sent yet.
    pub(crate) fn tell_gap(&mut self, key: SlotKey, session: Session, lost: u64) {
        if lost == 0 {
            return;
        }
        if let Some(backlog) = self.backlogs.get_mut(key.index) {
            backlog.lose(lost);
            return self.announce_gap(key);
        }
        let mut notice = self.scratch();
        push(&mut notice, |out| {
            frame::notice(session.encoding, &Notice::Gap { lost }, out).range(session.framing)
        });
        self.stats.add(Metric::Gaps, u64::from(!notice.is_empty()));
        self.recent_gaps.add(key, lost, self.clock.now);
        self.send(key, &notice);
        self.put_back(notice);
    }

    /// Tells a session how many of its events were dropped, if any were: at the place in its
    /// stream where they are missing.
    pub(super) fn announce_gap(&mut self, key: SlotKey) {
        let Some(lost) = self.backlogs.get(key.index).and_then(Backlog::unannounced) else {
            return;
        };
        let Some(session) = self.session(key) else {
            return;
        };
        let mut notice = self.scratch();
        let range = frame::notice(session.encoding, &Notice::Gap { lost }, &mut notice);
        let range = range.range(session.framing);
        let bytes = range.len();
        let replaced = self.backlogs.announce_gap(key.index, &notice[range], lost);
        self.put_back(notice);
        self.recent_gaps.add(key, lost, self.clock.now);
        self.stats.add(Metric::BacklogBytes, bytes as u64);
        self.stats.take(Metric::BacklogBytes, replaced as u64);
        self.stats
            .add(Metric::Gaps, u64::from(bytes > 0 && replaced == 0));
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
            match self.driver.watch_writable(&connection.socket, key.into()) {
                Ok(()) => connection.watched = Some(Interest::ReadableAndWritable),
                // It is closed when the turn ends: the stages that send now still expect it.
                Err(_) => self.unwatched.push(key),
            }
        }
    }

    /// Closes the connections whose room to send the poller does not report. What waits for them
    /// would never be sent.
    pub(crate) fn close_unwatched(&mut self) {
        for key in mem::take(&mut self.unwatched) {
            self.close(key, CloseReason::Rejected);
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

/// Counts a frame that its socket took whole. An event without bytes, on the wire of 2008, reached
/// no client.
pub(super) fn count_sent(owed: &OwedFrame, frames: &mut TurnFrames) {
    match owed.range.is_empty() {
        false => frames.count_written(owed.event),
        true => frames.count_shed(owed.event),
    }
}

/// Counts a frame that waits for its socket, like [`count_sent`].
pub(super) fn count_waits(owed: &OwedFrame, frames: &mut TurnFrames) {
    match owed.range.is_empty() {
        false => frames.count_queued(owed.event),
        true => frames.count_shed(owed.event),
    }
}

pub(super) fn shed(owed: &[OwedFrame], frames: &mut TurnFrames) {
    for frame in owed {
        frames.count_shed(frame.event);
    }
}
