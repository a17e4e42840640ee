//! Requests that waited for key sets, or for a decision on their login.

use reactor::{Driver, SlotKey};

use super::Worker;
use crate::login_check::LoginVerdict;
use crate::session::subscribe_checked;
use crate::table::Phase;

impl<D: Driver> Worker<D> {
    /// Takes a decision on a login.
    pub(super) fn login_checked(&mut self, key: SlotKey, number: u64, verdict: LoginVerdict) {
        if let Some(ids) = self.sessions.login_checks.answer(key, number, verdict) {
            subscribe_checked(&mut self.sessions, &mut self.table, key, &ids, verdict);
        }
    }

    /// Handles requests again that have waited, a turn's worth of them.
    pub(super) fn resume_awaiting_keys(&mut self) {
        let limits = self.table.limits;
        let mut keys = self.sessions.awaiting_keys.take(limits);
        let checked = self.sessions.login_checks.take_released(limits);
        keys.extend(&checked);
        for key in keys {
            let waits = |phase| phase == Phase::AwaitingKeys;
            if self
                .table
                .get(key)
                .is_some_and(|connection| waits(connection.phase))
            {
                self.table.enter(key, Phase::Head { partial: true });
                let (ingress, table, mut requests) = self.request_path();
                // No edge will announce what has come meanwhile.
                ingress.resume(table, key, true, &mut requests);
            }
        }
        // An answer holds for the request that it was about.
        for key in checked {
            self.sessions.login_checks.forget_answer(key);
        }
    }
}
