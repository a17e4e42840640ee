//! What sessions and polls are sent beside the fan-out: heartbeats, replays, presence, batches.

use std::time::Duration;

use reactor::Driver;
use wire::frame::Position;

use super::Worker;
use crate::replay::advance_period;
use crate::stage::Stage as _;
use crate::table::{CloseReason, Extras};

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
            .map(|position| Position { epoch, position });
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
                connection.extras.remove(Extras::FED);
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

    /// Tells sessions who is online, a turn's worth of them.
    pub(super) fn serve_presence(&mut self) {
        for key in self.sessions.take_to_snapshot() {
            self.presence.ask(key);
        }
        if self.presence.has_work() {
            let (table, sessions) = (&mut self.table, &self.sessions);
            self.presence.serve(table, sessions, &self.mailbox);
        }
    }

    /// Answers the polls that can be answered, a turn's worth of them, and logs out those whose
    /// clients have not come back.
    pub(super) fn answer_polls(&mut self) {
        if self.sessions.polls.awaits_period() {
            let period = advance_period(&self.shared.router);
            self.sessions.polls.period_reached(period);
        }
        let mut expired = Vec::new();
        self.sessions
            .polls
            .expire(self.table.clock.now, &mut expired);
        for key in expired {
            self.sessions
                .log_out_poll(&mut self.table, key, CloseReason::Timeout);
        }
        for _ in 0..self.table.limits.polls_per_turn {
            let Some((key, wake)) = self.sessions.polls.next_woken() else {
                return;
            };
            let (table, responder) = (&mut self.table, &mut self.responder);
            if self.sessions.answer_poll(table, responder, key, wake) {
                // No edge will announce the requests that came meanwhile.
                let (ingress, table, mut requests) = self.request_path();
                ingress.resume(table, key, true, &mut requests);
            }
        }
    }
}
