//! Sessions that must end: closed by the operator, expired, or revoked.

use auth::UnixSeconds;
use reactor::{Driver, SlotKey};
use wire::notice::Expiry;

use super::Worker;
use crate::drain::Drain;
use crate::limits::DRAIN_SLOTS_PER_TURN;
use crate::session::{LastWord, Leaving, end_stream};
use crate::table::{CloseReason, Ended};

impl<D: Driver> Worker<D> {
    /// Begins to end the worker, or to send its clients to another server.
    pub(super) fn begin_drain(&mut self, ends: bool) {
        self.acceptor.close(&mut self.table.driver, |_| !ends);
        let (now, taken) = (self.table.clock.now, self.fanout.taken());
        let drain = Drain::new(
            self.id,
            self.shared.settings.workers,
            &self.table.live,
            now,
            taken,
            ends,
        );
        self.drain = self.drain.take().filter(Drain::ends).or(Some(drain));
    }

    /// Notes sessions that must end.
    pub(super) fn end_sessions(
        &mut self,
        keys: impl IntoIterator<Item = SlotKey>,
        word: LastWord,
        reason: CloseReason,
    ) {
        let leaving = |key| Leaving { key, word, reason };
        self.leaving.extend(keys.into_iter().map(leaving));
    }

    /// Notes sessions that the operator closes, or that another one takes the place of.
    pub(super) fn end_kicked(&mut self, sessions: Vec<SlotKey>) {
        for key in sessions {
            let word = match self.sessions.is_kept_away(&self.table, key) {
                true => LastWord::KeptAway,
                false => LastWord::Nothing,
            };
            self.end_sessions([key], word, CloseReason::Kicked);
        }
    }

    /// Ends sessions that must end, a turn's worth of them.
    pub(super) fn end_leaving(&mut self) {
        let count = self.leaving.len().min(DRAIN_SLOTS_PER_TURN as usize);
        for Leaving { key, word, reason } in self.leaving.drain(..count) {
            end_stream(&mut self.table, &mut self.sessions.polls, key, word, reason);
        }
    }

    /// Notes sessions whose identity is about to expire, or was revoked.
    pub(super) fn check_leases(&mut self) {
        let (now, time) = (
            self.table.clock.now,
            UnixSeconds(self.table.clock.unix_seconds),
        );
        let expired = self.sessions.leases.expired(now, time);
        self.end_leases(expired, Expiry::Expired, CloseReason::Expired);
        let revoked = self.sessions.leases.revoked(self.table.limits);
        self.end_leases(revoked, Expiry::Revoked, CloseReason::Revoked);
    }

    /// Notes those of the sessions whose identity was issued before a time.
    pub(super) fn revoke_older(&mut self, sessions: Vec<SlotKey>, before: UnixSeconds) {
        let leases = &self.sessions.leases;
        let is_older = |key: &SlotKey| {
            // Of a stale name, the slot may have the lease of another session.
            self.table.get(*key).is_some()
                && leases
                    .get(key.index)
                    .is_some_and(|lease| lease.is_older(before))
        };
        let older = sessions.into_iter().filter(is_older).map(|key| key.index);
        let older = older.collect();
        self.end_leases(older, Expiry::Revoked, CloseReason::Revoked);
    }

    fn end_leases(&mut self, slots: Vec<u32>, expiry: Expiry, reason: CloseReason) {
        for slot in slots {
            // The scan need not find it again.
            self.sessions.leases.remove(slot);
            if let Some((key, _)) = self.table.at(slot) {
                self.end_sessions([key], LastWord::Expired(expiry), reason);
            }
        }
    }

    /// Logs out the sessions that ended.
    pub(super) fn log_out_ended(&mut self) {
        for Ended {
            key,
            session,
            reason,
        } in self.table.take_ended()
        {
            if let Some(session) = session {
                self.sessions
                    .log_out(&mut self.table, key, &session, reason);
                continue;
            }
            if let Some(waiting) = self.sessions.polls.waiting(key) {
                self.responder
                    .note_unanswered(&self.table, &waiting.manner, reason);
            }
            self.sessions.log_out_poll(&mut self.table, key, reason);
        }
    }
}
