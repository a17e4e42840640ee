//! Polls: answered when there is something to tell, or when their time is over.

use reactor::Driver;

use super::Worker;
use crate::replay::advance_period;
use crate::table::CloseReason;

impl<D: Driver> Worker<D> {
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
