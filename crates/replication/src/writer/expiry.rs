//! Answers to appends that were not read back.

use std::time::Duration;

use super::group::Group;
use super::options::{ANSWER_WITHIN, UNAVAILABLE_AFTER};
use super::{Refused, Writer};
use crate::append::AppendError;

/// Error of an append that was never sent.
pub(super) const UNAVAILABLE: AppendError = AppendError::Unavailable {
    retry_after: UNAVAILABLE_AFTER,
};

impl<T> Writer<T> {
    /// Returns the appends that have timed out: with [`AppendError::Unknown`] those that were sent,
    /// which may count later, and with [`AppendError::Unavailable`] those that were not sent, which
    /// are dropped.
    pub fn expire(&mut self, now: Duration) -> Vec<Refused<T>> {
        let is_over = |group: &Group<T>| now >= group.since + ANSWER_WITHIN;
        let mut expired = Vec::new();
        for group in self.queue.iter_mut().take_while(|group| is_over(group)) {
            if group.sent.is_some() {
                expired.extend(group.refuse(AppendError::Unknown));
            }
        }
        let sent = self.queue.iter().take_while(|it| it.sent.is_some()).count();
        let unsent = self.queue.iter().skip(sent);
        let dropped = unsent.take_while(|group| is_over(group)).count();
        for mut group in self.queue.drain(sent..sent + dropped) {
            self.waiting_bytes -= group.charge;
            expired.extend(group.refuse(UNAVAILABLE));
        }
        expired
    }

    /// Ends the writer. Returns all appends that were not read back.
    pub fn end(mut self) -> Vec<Refused<T>> {
        let mut refused = Vec::new();
        for group in &mut self.queue {
            refused.extend(group.refuse(match group.sent {
                Some(_) => AppendError::Unknown,
                None => UNAVAILABLE,
            }));
        }
        refused
    }
}
