//! Refusal of requests that do not arrive whole.

use reactor::{Driver, SlotKey};
use wire::status::Status;

use super::content::Answer;
use super::responder::Responder;
use crate::table::{CloseReason, ConnectionTable};

const NO_ROOM: &str = "the server has no room for requests that arrive in parts; try again later";

impl Responder {
    /// Rejects a head that took too long.
    pub(crate) fn reject_late<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        let reason = "the request's head did not arrive in time; send it at once";
        self.answer_last(table, key, &Answer::error(Status::REQUEST_TIMEOUT, reason));
    }

    /// Refuses a connection whose input cannot be kept: with an answer where one can be given.
    pub(crate) fn refuse_unread<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) {
        match table.takes_answer(key) {
            true => self.answer_last(table, key, &Answer::busy(NO_ROOM)),
            false => table.close(key, CloseReason::Rejected),
        }
    }
}
