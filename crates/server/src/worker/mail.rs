//! Messages from other threads: each is handed to the stage that it is for.

use reactor::Driver;

use super::Worker;
use crate::inspect::inspect;
use crate::mail::{Mail, Reload};

impl<D: Driver> Worker<D> {
    /// Takes what has come, in order.
    pub(super) fn take_mail(&mut self) {
        // Before the mail, so that nothing up to there is still in the mailbox.
        self.head = self.head_for_heartbeats();
        for mail in self.mailbox.take() {
            match mail {
                Mail::Deliver(parcel) => {
                    // Its publisher may move the head a moment later.
                    if let (Some(head), Some(newest)) = (&mut self.head, parcel.newest_stored()) {
                        *head = newest.max(*head);
                    }
                    self.fanout.add(parcel, self.table.limits);
                }
                Mail::Presence(parcel) => self.presence.add(parcel),
                Mail::PresenceSnapshots => self.presence.begin_round(),
                Mail::PresenceChanged(sessions) => {
                    self.presence.ask_all(&self.table, &sessions.0);
                    self.mailbox.release(sessions.weight());
                }
                Mail::Inspect { sessions, report } => inspect(
                    &mut self.table,
                    &self.sessions,
                    &self.shared.router,
                    &sessions,
                    report,
                ),
                Mail::Slowest { limit, report } => self.slowest.ask(limit, report),
                Mail::Close(sessions) => self.end_kicked(sessions),
                Mail::Revoke(revoked) => self.sessions.leases.search(revoked),
                Mail::RevokeOlder(sessions, before) => self.revoke_older(sessions, before),
                Mail::Published(it) => self.sessions.published(&mut self.table, &it),
                Mail::KeysFetched => self.sessions.awaiting_keys.release(),
                Mail::LoginChecked {
                    key,
                    number,
                    verdict,
                } => self.login_checked(key, number, verdict),
                Mail::Reload(Reload {
                    live,
                    pending: _held,
                }) => {
                    for stage in self.stages_mut() {
                        stage.reload(&live);
                    }
                }
                Mail::Drain { ends } => self.begin_drain(ends),
            }
        }
        self.take_losses();
        self.sessions.replays.mail_taken();
    }
}
