//! What the log's thread does with the records that it takes from the queue.
//!
//! Owns the segment being written, the removal of old ones, and the handling of a failed disk:
//! events are in memory only, and the log later continues behind a gap that clients are told of.
//! Must never report an event as stored that would not be there after a restart.

use std::collections::VecDeque;
use std::time::Duration;
use std::{io, mem};

use parking_lot::MutexGuard;
use router::LogMetrics;

use crate::active::Active;
use crate::disk::{Disk, DiskFile};
use crate::queue::{SharedMetrics, Taken};
use crate::record::{self, SYNCED_BYTES};
use crate::segment::{self, Boundary, Header};
use crate::settings::{Health, Limits, Run, SyncPolicy};
use crate::state::State;

/// Time before a failed disk is tried again; it doubles with each failure that follows soon.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);

/// Longest time before a failed disk is tried again.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(64);

/// The same for a disk without room, which an administrator may make at any time.
const FULL_RETRY_DELAY_MAX: Duration = Duration::from_secs(4);

/// Time without a failure after which the next one counts as the first.
const RETRY_FORGET: Duration = Duration::from_secs(600);

/// The log's thread without the thread.
pub(crate) struct Work<D: Disk> {
    disk: D,
    environment: Environment,
    state: State,
    /// `None` after a failure.
    active: Option<Active<D::File>>,
    /// Complete segments, oldest first.
    closed: VecDeque<Closed>,
    next_number: u64,
    random: u64,
    /// Position up to which events were dropped, after a failure.
    dropped: u64,
    failure: Failure,
    /// When old segments may be removed, after a removal that failed.
    remove_at: Duration,
}

/// Last failure of the disk.
#[derive(Debug, Clone, Copy, Default)]
struct Failure {
    last: Option<Duration>,
    delay: Duration,
    retry_at: Duration,
}

/// Complete segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed {
    pub(crate) number: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
}

/// What a start has found, from which the thread continues.
pub(crate) struct Resumed<D> {
    pub(crate) disk: D,
    pub(crate) state: State,
    pub(crate) closed: VecDeque<Closed>,
    pub(crate) next_number: u64,
    /// Last position in the log.
    pub(crate) after: u64,
    /// Position after which this run's events come.
    pub(crate) from: u64,
    pub(crate) boundary: Boundary,
}

/// What does not change while the thread works.
pub(crate) struct Environment {
    pub(crate) limits: Limits,
    pub(crate) sync: SyncPolicy,
    pub(crate) run: Run,
    /// Returns the time since a fixed moment.
    pub(crate) clock: Box<dyn Fn() -> Duration + Send>,
    pub(crate) metrics: SharedMetrics,
    /// Is called when the disk fails or works again.
    pub(crate) report: Box<dyn Fn(&Health) + Send>,
}

impl<D: Disk> Work<D> {
    /// Begins a run: first a new segment, then the state that reserves positions. In the other
    /// order, a crash between the two would lose what the header says about the last run.
    ///
    /// A server starts even if the disk is full, but not if the state cannot be written: positions
    /// might be given out twice.
    pub(crate) fn begin(resumed: Resumed<D>, environment: Environment) -> io::Result<Self> {
        let Resumed {
            disk,
            mut state,
            closed,
            next_number,
            after,
            from,
            boundary,
        } = resumed;
        state.reserved = from + 2 * environment.limits.reserved_positions;
        state.ended = None;
        state.has_failed = false;
        state.syncs_receipts = environment.sync == SyncPolicy::Receipt;
        state.boot.clone_from(&environment.run.boot);
        let mut work = Self {
            disk,
            random: environment.run.random,
            environment,
            state,
            active: None,
            closed,
            next_number,
            dropped: from,
            failure: Failure::default(),
            remove_at: Duration::ZERO,
        };
        if let Err(error) = work.create(after, from, boundary) {
            work.state.has_failed = true;
            work.state.write(&work.disk)?;
            work.note_failure(error);
            return Ok(work);
        }
        work.state.write(&work.disk)?;
        work.count_files();
        Ok(work)
    }

    /// Stores what was taken, tells the publishers, and does what is due.
    pub(crate) fn step(&mut self, taken: &mut Taken) {
        let now = (self.environment.clock)();
        if self.active.is_none() && now >= self.failure.retry_at {
            self.recover();
        }
        self.reserve_positions(taken.marks.head);
        let is_stored = self.store(taken, now);
        for publisher in taken.publishers.drain(..) {
            let unstored = if is_stored { 0 } else { publisher.events };
            publisher.tally.settle_stored(unstored + publisher.refused);
        }
        if self
            .sync_at()
            .is_some_and(|at| at <= (self.environment.clock)())
        {
            self.sync_or_fail();
        }
        if now >= self.remove_at {
            self.remove_old(taken.marks.cleared, now);
        }
        if taken.has_ended {
            self.end();
        }
    }

    /// Returns when the next step is due if no event comes before.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self.active {
            Some(_) => self.sync_at(),
            None => Some(self.failure.retry_at),
        }
    }

    /// Returns when the next sync is due.
    fn sync_at(&self) -> Option<Duration> {
        let since = self.active.as_ref()?.unsynced_since?;
        match self.environment.sync {
            SyncPolicy::Interval(interval) => Some(since + interval),
            SyncPolicy::Receipt => Some(since),
        }
    }

    /// Writes the records, if the disk works. Returns whether they are stored.
    fn store(&mut self, taken: &mut Taken, now: Duration) -> bool {
        let mut result = match self.active {
            Some(_) => self.write(&mut taken.bytes, now),
            None => {
                self.dropped = taken.last;
                self.metrics().unstored += taken.events + taken.refused;
                return false;
            }
        };
        if self.environment.sync == SyncPolicy::Receipt && result.is_ok() {
            result = self.sync();
        }
        match result {
            Ok(()) => {
                self.metrics().events += taken.events;
                self.metrics().unstored += taken.refused;
                true
            }
            Err(error) => {
                self.metrics().unstored += taken.events + taken.refused;
                self.fail(error);
                self.dropped = taken.last;
                false
            }
        }
    }

    /// Appends records, which begin behind the space for a synced mark.
    fn write(&mut self, bytes: &mut [u8], now: Duration) -> io::Result<()> {
        if bytes.len() == SYNCED_BYTES {
            return Ok(());
        }
        let mark = self.active.as_mut().and_then(Active::take_mark);
        let mut rest = match mark {
            Some(mark) => {
                bytes[..SYNCED_BYTES].copy_from_slice(&mark);
                bytes
            }
            None => &mut bytes[SYNCED_BYTES..],
        };
        while let Some(size) = record::size(rest) {
            let Some(active) = &mut self.active else {
                return Ok(());
            };
            if active.is_full(size, self.environment.limits.segment_bytes) {
                self.roll()?;
                continue;
            }
            let written = active.write(rest, self.environment.limits.segment_bytes)?;
            active.unsynced_since.get_or_insert(now);
            self.metrics().bytes += written as u64;
            rest = &mut rest[written..];
        }
        self.count_files();
        Ok(())
    }

    /// Completes the segment, and begins the next one.
    fn roll(&mut self) -> io::Result<()> {
        self.sync()?;
        let Some(active) = &self.active else {
            return Ok(());
        };
        active.file.set_len(active.offset)?;
        let end = active.end;
        self.close();
        self.create(end, end, Boundary::Complete)
    }

    /// Closes the segment.
    fn close(&mut self) {
        if let Some(active) = self.active.take() {
            self.dropped = active.end;
            self.closed.push_back(Closed {
                number: active.number,
                end: active.end,
                bytes: active.offset,
            });
        }
    }

    /// Creates a segment, the one being written from now on.
    fn create(&mut self, after: u64, from: u64, boundary: Boundary) -> io::Result<()> {
        let number = self.next_number;
        self.next_number += 1;
        let header = Header {
            number,
            after,
            from,
            boundary,
            salt: self.next_random(),
            epoch: self.state.epoch.clone(),
        };
        let active = Active::create(&self.disk, &header, self.environment.limits.segment_bytes)?;
        self.active = Some(active);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        if active.unsynced_since.is_none() {
            return Ok(());
        }
        let start = (self.environment.clock)();
        active.file.sync()?;
        active.unsynced_since = None;
        active.synced = active.end;
        let took = (self.environment.clock)().saturating_sub(start);
        self.metrics().syncs += 1;
        self.metrics().sync_time += took;
        Ok(())
    }

    fn sync_or_fail(&mut self) {
        if let Err(error) = self.sync() {
            self.fail(error);
        }
    }

    /// Reserves more positions on disk before the reserved ones are used up.
    fn reserve_positions(&mut self, head: u64) {
        let before = self.state.reserved;
        let reserved = self.environment.limits.reserved_positions;
        if self.active.is_none() || head.saturating_add(reserved) <= before {
            return;
        }
        self.state.reserved = head.saturating_add(2 * reserved);
        if let Err(error) = self.state.write(&self.disk) {
            self.state.reserved = before;
            self.fail(error);
        }
    }

    /// Gives up the segment. What was written since the last sync may be lost although the kernel
    /// takes it for written, so nothing is written to this file again.
    fn fail(&mut self, error: io::Error) {
        self.close();
        self.state.has_failed = true;
        // If this fails too, it is tried again when the disk is.
        let _ = self.state.write(&self.disk);
        self.note_failure(error);
    }

    fn note_failure(&mut self, error: io::Error) {
        let now = (self.environment.clock)();
        let Failure { last, delay, .. } = self.failure;
        let is_first = last.is_none_or(|last| now.saturating_sub(last) > RETRY_FORGET);
        let delay_max = match error.kind() {
            io::ErrorKind::StorageFull => FULL_RETRY_DELAY_MAX,
            _ => RETRY_DELAY_MAX,
        };
        let delay = match is_first {
            true => RETRY_DELAY_MIN,
            false => (2 * delay).min(delay_max),
        };
        self.failure = Failure {
            last: Some(now),
            delay,
            retry_at: now + delay,
        };
        self.metrics().failures += 1;
        self.count_files();
        let had_failed = mem::replace(&mut self.metrics().has_failed, true);
        if !had_failed {
            (self.environment.report)(&Health::Failed(error));
        }
    }

    /// Tries to continue after a failure, in a new segment whose header tells of the gap.
    fn recover(&mut self) {
        let after = self.closed.back().map_or(0, |closed| closed.end);
        let created = self
            .state
            .write(&self.disk)
            .and_then(|()| self.create(after, self.dropped, Boundary::Lost));
        if let Err(error) = created {
            return self.note_failure(error);
        }
        self.state.has_failed = false;
        if self.state.write(&self.disk).is_err() {
            self.state.has_failed = true;
        }
        self.metrics().has_failed = false;
        self.count_files();
        (self.environment.report)(&Health::Recovered);
    }

    /// Removes the segments whose events have all left the history, and the oldest if there are too
    /// many of them, or too many bytes.
    fn remove_old(&mut self, cleared: u64, now: Duration) {
        while let Some(&Closed { number, end, .. }) = self.closed.front()
            && (end <= cleared
                || self.disk_bytes() > self.environment.limits.disk_bytes
                || self.closed.len() >= self.environment.limits.segments)
        {
            match self.disk.remove(&segment::name(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.metrics().failures += 1;
                    self.remove_at = now + RETRY_DELAY_MAX;
                    return;
                }
                _ => {}
            }
            self.closed.pop_front();
            self.count_files();
        }
    }

    /// Stores that the log ends here, so that the next run can continue without a gap.
    fn end(&mut self) {
        self.sync_or_fail();
        if let Some(active) = &self.active {
            // This only frees reserved space.
            let _ = active.file.set_len(active.offset);
        }
        self.close();
        self.state.ended = Some(self.dropped);
        if let Err(error) = self.state.write(&self.disk) {
            self.note_failure(error);
        }
    }

    fn disk_bytes(&self) -> u64 {
        let closed = self.closed.iter().map(|closed| closed.bytes);
        closed.sum::<u64>() + self.active.as_ref().map_or(0, |active| active.offset)
    }

    fn count_files(&self) {
        let segments = self.closed.len() + usize::from(self.active.is_some());
        let disk_bytes = self.disk_bytes();
        let mut metrics = self.metrics();
        (metrics.segments, metrics.disk_bytes) = (segments as u64, disk_bytes);
    }

    fn metrics(&self) -> MutexGuard<'_, LogMetrics> {
        self.environment.metrics.lock()
    }

    /// Returns the next salt (splitmix64).
    fn next_random(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as u32
    }
}
