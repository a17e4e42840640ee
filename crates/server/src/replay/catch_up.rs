//! Changes between live and fed: at the beginning of a stream, and for sessions that lost events.

use reactor::{Driver, SlotKey};

use super::replays::{Replays, Stage};
use crate::losses::Loss;
use crate::open_session::Session;
use crate::stats::Metric;
use crate::table::{Behind, ConnectionTable, Extras, Phase};

impl Replays {
    /// Begins to feed a session the events after a position. It goes live in the planning period
    /// `live_from` at the earliest; 0 for a session that was live before. Returns whether the
    /// session is open.
    pub(super) fn begin_after<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        after: u64,
        live_from: u64,
    ) -> bool {
        self.begin(table, key, after, Stage::Missed { live_from })
    }

    /// Begins to feed a session the last `count` events of each subject up to a position, and then
    /// those after it.
    pub(super) fn begin_rewind<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        count: u8,
        until: u64,
        live_from: u64,
    ) {
        let stage = Stage::Rewind {
            count,
            until,
            live_from,
        };
        self.begin(table, key, 0, stage);
    }

    /// Holds all events for a session until its client has said which it has. `head` is that of the
    /// history before it logged in.
    pub(super) fn await_cursor<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        head: u64,
    ) {
        self.begin(table, key, head, Stage::Awaited);
    }

    /// Begins to feed a live session the events from position `first` on. Before it, the session is
    /// sent those that are in flight: all deliveries below the number `taken`.
    fn begin_behind<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        first: u64,
        taken: u64,
    ) {
        let fed = self.fed(key).unwrap_or_default();
        if self.begin(table, key, fed, Stage::InFlight { before: first }) {
            let last = self.in_flight.back().map_or(0, |&(taken, _)| taken);
            debug_assert!(last <= taken, "deliveries are numbered as they are taken");
            self.in_flight.push_back((taken, key));
        }
    }

    /// Begins a replay of a session. Returns whether the session is open.
    fn begin<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        fed: u64,
        stage: Stage,
    ) -> bool {
        let Some(connection) = table.get_mut(key) else {
            return false;
        };
        if !matches!(connection.phase, Phase::Open(_)) {
            return false;
        }
        connection.extras.insert(Extras::FED);
        if !self.is_fed(key) {
            table.stats.add(Metric::SessionsReplaying, 1);
        }
        self.insert(key, fed, stage);
        true
    }

    /// Removes the replay of a session that has ended, if it has one.
    pub(crate) fn end<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        if table.clear(key, Extras::FED)
            && let Some(held) = self.remove(key)
        {
            table.stats.take(Metric::SessionsReplaying, 1);
            table.stats.add(Metric::DeliveriesLost, held.into());
        }
    }

    /// Goes on with feeding a session whose socket has room again, if it is fed.
    pub(crate) fn room<D: Driver>(&mut self, table: &ConnectionTable<D>, key: SlotKey) {
        if table.has(key, Extras::FED) {
            self.feed_soon(key);
        }
    }

    /// Makes up for events that a session has lost: it reads on from the history, where they are
    /// and its policy wants them. Otherwise it is told how many there were. All events before them
    /// are sent, or in deliveries below the number `taken`.
    pub(crate) fn lose<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        session: Session,
        loss: Loss,
        taken: u64,
    ) {
        // A session that is fed reads them anyway.
        let is_fed = self.is_fed(key);
        let resumes = is_fed || (table.has_history() && !session.slow.drops());
        let (first, told) = match resumes {
            true => (loss.first_stored, loss.unstored),
            false => (None, loss.stored + loss.unstored),
        };
        table.tell_gap(key, session, told);
        if let Some(first) = first.filter(|_| !is_fed) {
            table.stats.add(Metric::CatchUps, 1);
            self.begin_behind(table, key, first, taken);
        }
    }

    /// Tells sessions that are fed of the events of this turn that the history does not have.
    pub(crate) fn tell_unstored<D: Driver>(&mut self, table: &mut ConnectionTable<D>) {
        while let Some((key, lost)) = self.next_unstored() {
            if let Some(session) = table.session(key) {
                table.tell_gap(key, session, lost.into());
            }
        }
    }

    /// Lets a session that fell behind read on from the history. `oldest` is the position of the
    /// oldest event in flight that the session has not been sent: later ones may have overtaken it.
    pub(crate) fn catch_up<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        behind: Behind,
        oldest: Option<u64>,
    ) {
        let Behind { key, first, events } = behind;
        assert!(first > 0 && oldest != Some(0), "positions count from 1");
        let after = oldest.map_or(first, |oldest| oldest.min(first)) - 1;
        // What a replay has fed is sent, or part of the backlog that is not dropped.
        let after = self.fed(key).map_or(after, |fed| after.max(fed));
        table.stats.add(Metric::CatchUps, 1);
        // A session that was about to be fed already holds some.
        let held = self.held(key);
        if self.begin_after(table, key, after, 0) {
            self.hold(key, events + held, first);
        }
    }
}
