//! Sessions that are too slow for live events and read on from the history.

use std::mem;

use reactor::{Driver, SlotKey};

use super::backlog::DroppedEvents;
use super::send::count_waits;
use super::{ConnectionTable, OwedFrame, Phase, Session};
use crate::frames::TurnFrames;
use crate::limits::CATCH_UP_BACKLOG_BYTES;
use crate::losses::Loss;
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

/// Session that fell behind in this turn: some of its events were dropped, which the history has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind {
    pub(crate) key: SlotKey,
    /// The lowest position of the events that were dropped.
    first: u64,
    /// Events that were dropped, and count as queued.
    events: u32,
}

impl<D: Driver> ConnectionTable<D> {
    /// Returns whether a session must read on from the history instead of letting an event of so
    /// many bytes wait.
    pub(super) fn must_catch_up(&self, key: SlotKey, session: Session, bytes: usize) -> bool {
        let bytes_max = self.limits.backlog_bytes.min(CATCH_UP_BACKLOG_BYTES);
        session.slow == SlowPolicy::CatchUp
            && self.has_history
            && self
                .backlogs
                .get(key.index)
                .is_some_and(|backlog| !backlog.is_within(bytes, bytes_max))
    }

    /// Drops the events that wait for a session, and those that it is owed. The session
    /// [catches up](Self::catch_up) after the fan-out of the turn, and is told of the events that
    /// the history does not have.
    pub(super) fn fall_behind(
        &mut self,
        key: SlotKey,
        session: Session,
        owed: &[OwedFrame],
        frames: &mut TurnFrames,
    ) {
        let Some(mut behind) = self.drop_waiting(key) else {
            return;
        };
        for owed in owed {
            let event = owed.event;
            if !frames.is_stored(event) {
                behind.unstored += 1;
                frames.count_shed(event);
                continue;
            }
            behind.stored += 1;
            let position = frames.sequence(event);
            behind.first = Some(behind.first.map_or(position, |first| first.min(position)));
            count_waits(owed, frames);
        }
        self.note_behind(key, session, behind);
    }

    /// Drops the events that wait for a session, to free their memory. The session
    /// [catches up](Self::catch_up) afterwards, and is told of those that the history does not
    /// have.
    pub(super) fn give_way_to_history(&mut self, key: SlotKey, session: Session) {
        if let Some(behind) = self.drop_waiting(key) {
            self.note_behind(key, session, behind);
        }
    }

    fn drop_waiting(&mut self, key: SlotKey) -> Option<DroppedEvents> {
        let dropped = self.backlogs.get_mut(key.index)?.drop_events();
        self.stats.take(Metric::BacklogBytes, dropped.bytes as u64);
        self.stats
            .add(Metric::DeliveriesLost, dropped.unstored.into());
        Some(dropped)
    }

    fn note_behind(&mut self, key: SlotKey, session: Session, behind: DroppedEvents) {
        self.tell_gap(key, session, behind.unstored.into());
        // What the history does not have is no reason to read on from there.
        if let Some(first) = behind.first {
            self.behind.push(Behind {
                key,
                first,
                events: behind.stored,
            });
        }
    }

    /// Makes up for events that a session has lost: it reads on from the history, where they are
    /// and its policy wants them. Otherwise it is told how many there were. All events before them
    /// are sent, or in deliveries below the number `taken`.
    pub(crate) fn lose(&mut self, key: SlotKey, session: Session, loss: Loss, taken: u64) {
        // A session that is fed reads them anyway.
        let is_fed = self.replays.is_fed(key);
        let resumes = is_fed || (self.has_history && !session.slow.drops());
        let (first, told) = match resumes {
            true => (loss.first_stored, loss.unstored),
            false => (None, loss.stored + loss.unstored),
        };
        self.tell_gap(key, session, told);
        if let Some(first) = first.filter(|_| !is_fed) {
            self.stats.add(Metric::CatchUps, 1);
            self.replay_behind(key, first, taken);
        }
    }

    /// Tells sessions that are fed of the events of this turn that the history does not have.
    pub(crate) fn tell_unstored(&mut self) {
        while let Some((key, lost)) = self.replays.next_unstored() {
            if let Some(Phase::Open(session)) = self.get(key).map(|connection| connection.phase) {
                self.tell_gap(key, session, lost.into());
            }
        }
    }

    /// Takes the sessions that fell behind in this turn.
    pub(crate) fn take_behind(&mut self) -> Vec<Behind> {
        mem::take(&mut self.behind)
    }

    /// Lets a session that fell behind read on from the history. `oldest` is the position of the
    /// oldest event in flight that the session has not been sent: later ones may have overtaken it.
    pub(crate) fn catch_up(&mut self, behind: Behind, oldest: Option<u64>) {
        let Behind { key, first, events } = behind;
        let after = oldest.map_or(first, |oldest| oldest.min(first)) - 1;
        // What a replay has fed is sent, or part of the backlog that is not dropped.
        let after = self.replays.fed(key).map_or(after, |fed| after.max(fed));
        self.stats.add(Metric::CatchUps, 1);
        // A session that was about to be fed already holds some.
        let held = self.replays.held(key);
        self.replay_after(key, after, 0);
        self.replays.hold(key, events + held, first);
    }
}
