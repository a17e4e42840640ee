//! Sessions that are fed from the history.

use std::time::Duration;

use reactor::Driver;
use wire::frame::Position;

use super::Worker;
use crate::replay::advance_period;
use crate::stage::Stage as _;
use crate::table::Extras;

impl<D: Driver> Worker<D> {
    /// Reads the head of the history, if heartbeats of this turn will carry it.
    pub(super) fn head_for_heartbeats(&self) -> Option<u64> {
        match self
            .heartbeats
            .next_in(self.table.clock.now, self.table.len())
        {
            Some(Duration::ZERO) => self.shared.router.head(),
            _ => None,
        }
    }

    /// Sends the heartbeats that are due. They carry the position up to which all live sessions
    /// without a backlog have everything, unless something older is on its way.
    pub(super) fn send_heartbeats(&mut self) {
        let oldest = self.fanout.oldest_position();
        let epoch = self.shared.router.epoch();
        let position = self
            .head
            .filter(|&head| oldest.is_none_or(|oldest| oldest > head))
            .map(|sequence| Position { epoch, sequence });
        let websockets = &mut self.sessions.websockets;
        self.heartbeats.send(&mut self.table, websockets, position);
    }

    /// Lets the sessions that fell behind in this turn read on from the history.
    pub(super) fn catch_up_behind(&mut self) {
        for behind in self.table.take_behind() {
            let oldest = self.fanout.oldest_for(behind.key);
            self.sessions
                .replays
                .catch_up(&mut self.table, behind, oldest);
        }
    }

    /// Feeds sessions from the history, a turn's worth of them, and forgets replays that are over.
    pub(super) fn feed_replays(&mut self) {
        while let Some(key) = self
            .sessions
            .replays
            .next_settled(self.fanout.oldest_position())
        {
            if let Some(connection) = self.table.get_mut(key) {
                connection.extras.remove(Extras::REPLAY);
            }
        }
        self.sessions.replays.deliveries_done(self.fanout.oldest());
        let router = &self.shared.router;
        let head = || router.head().unwrap_or_default();
        self.sessions.replays.head_reached(head);
        if self.sessions.replays.awaits_period() {
            self.sessions.replays.period_reached(advance_period(router));
        }
        let mut bytes = 0;
        for _ in 0..self
            .sessions
            .replays
            .ready()
            .min(self.table.limits.replays_per_turn)
        {
            if bytes >= self.table.limits.replay_bytes_per_turn {
                break;
            }
            let Some(key) = self.sessions.replays.next_ready() else {
                break;
            };
            bytes += self
                .feeder
                .feed(&mut self.table, &mut self.sessions, router, key);
        }
    }
}
