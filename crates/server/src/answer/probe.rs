//! Answers to load balancers, which say yes or no and nothing else.

use std::borrow::Cow;

use reactor::{Driver, SlotKey};
use wire::head::{Method, Request};
use wire::response::Cors;
use wire::status::Status;

use super::content::{Answer, Fields, TEXT};
use super::responder::{Manner, Responder};
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
        let manner = Manner {
            head_only: request.method == Method::Head,
            keep_alive: is_admitted && request.keep_alive && !self.shared.takes_no_streams(),
            version: request.version,
            cors: Cors::default(),
            end: None,
        };
        let bytes = Self::write(&mut self.date, table, key, answer, &manner);
        self.note(table, key, Some(request), answer.status, bytes);
    }
}
