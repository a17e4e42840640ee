//! Events that the mailbox refused.

use reactor::{Driver, SlotKey};

use super::Worker;
use crate::losses::{Loss, Lost, by_session};
use crate::session::Wake;
use crate::stats::Metric;
use crate::table::{Extras, Phase};

impl<D: Driver> Worker<D> {
    /// Makes up to sessions for the events that the mailbox refused, or tells them. To be called
    /// when the mail was taken: later events are in it at the earliest, so no session was sent one
    /// yet.
    pub(super) fn take_losses(&mut self) {
        let lost = self.shared.losses(self.id).take();
        self.table
            .stats
            .add(Metric::DeliveriesShed, lost.recipients() as u64);
        match lost {
            Lost::Listed { deliveries, .. } => {
                for (key, loss) in by_session(&deliveries) {
                    self.lose(key, loss);
                }
            }
            Lost::ByAnySession { loss, .. } => {
                for index in 0..self.table.slots() {
                    if let Some((key, _)) = self.table.at(index) {
                        self.lose(key, loss);
                    }
                }
            }
        }
    }

    fn lose(&mut self, key: SlotKey, loss: Loss) {
        let Some(connection) = self.table.get(key) else {
            return;
        };
        if let Phase::Open(session) = connection.phase {
            let taken = self.fanout.taken();
            self.sessions
                .replays
                .lose(&mut self.table, key, session, loss, taken);
        } else if connection.extras.has(Extras::LOGIN) && loss.stored > 0 {
            // The history has it: for the poll that waits, or for the next.
            self.sessions.polls.wake(key, Wake::Event);
        }
    }
}
