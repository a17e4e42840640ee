//! Sessions that are too slow for live events and read on from the history.

use std::mem;

use reactor::{Driver, SlotKey};

use super::backlog::DroppedEvents;
use super::send::count_waits;
use super::{Behind, ConnectionTable, OwedFrame};
use crate::frames::TurnFrames;
use crate::open_session::Session;
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

impl<D: Driver> ConnectionTable<D> {
    /// Returns whether a session must read on from the history instead of letting an event of so
    /// many bytes wait.
    pub(super) fn must_catch_up(&self, key: SlotKey, session: Session, bytes: usize) -> bool {
        let bytes_max = self
            .live
            .backlog_bytes
            .min(self.limits.catch_up_backlog_bytes);
        session.slow == SlowPolicy::CatchUp
            && self.has_history
            && self
                .backlogs
                .get(key.index)
                .is_some_and(|backlog| !backlog.is_within(bytes, bytes_max))
    }

    /// Drops the events that wait for a session, and those that it is owed. The session
    /// catches up after the fan-out of the turn, and is told of the events that
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
            let position = frames.position(event);
            behind.first = Some(behind.first.map_or(position, |first| first.min(position)));
            count_waits(owed, frames);
        }
        self.note_behind(key, session, behind);
    }

    /// Drops the events that wait for a session, to free their memory. The session
    /// catches up afterwards, and is told of those that the history does not
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

    /// Takes the sessions that fell behind in this turn.
    pub(crate) fn take_behind(&mut self) -> Vec<Behind> {
        mem::take(&mut self.behind)
    }
}
