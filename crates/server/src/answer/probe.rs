//! Answers to load balancers, which say yes or no and nothing else.

use std::borrow::Cow;

use reactor::{Driver, SlotKey};
use wire::head::Request;
use wire::response::Cors;
use wire::status::Status;

use super::content::{Answer, Fields, TEXT};
use super::responder::Responder;
use crate::table::ConnectionTable;

impl Answer {
    /// The answer to a probe that finds the server in order.
    pub(crate) const fn healthy() -> Self {
        Self {
            status: Status::OK,
            content_type: TEXT,
            fields: Fields::Fixed(&[("Cache-Control", "no-store")]),
            body: Cow::Borrowed(b"ok\n"),
        }
    }
}

impl Responder {
    /// Answers a probe. A connection that is not counted ends with it.
    pub(crate) fn answer_probe<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        answer: &Answer,
        is_admitted: bool,
    ) {
        self.answer_as(table, key, request, answer, is_admitted, Cors::default());
    }
}
