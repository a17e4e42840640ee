//! Answers to requests that have waited: polls.

use reactor::{Driver, SlotKey};
use wire::head::{Request, Version};

use super::content::Answer;
use super::cors::cors;
use super::logged::LoggedLater;
use super::responder::{Manner, Responder};
use crate::table::{CloseReason, ConnectionTable};

/// What is kept of a request that is answered later.
#[derive(Debug)]
pub(crate) struct RequestManner {
    keep_alive: bool,
    version: Version,
    origin: Option<Box<str>>,
    logged: Option<Box<LoggedLater>>,
}

impl Responder {
    /// Returns what must be kept of a request that is answered later.
    pub(crate) fn keep<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
    ) -> RequestManner {
        RequestManner {
            keep_alive: request.keep_alive,
            version: request.version,
            origin: request.origin.map(Box::from),
            logged: self.to_log(table, key, request),
        }
    }

    /// Notes a request whose connection ended before its answer.
    pub(crate) fn note_unanswered<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        manner: &RequestManner,
        reason: CloseReason,
    ) {
        self.note_later(table, manner.logged.as_deref(), None, Some(reason.name()));
    }

    /// Answers a GET request that has waited. The connection continues with the next one if both
    /// sides allow it, unless it must `end`.
    pub(crate) fn answer_later<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        manner: &RequestManner,
        answer: &Answer,
        end: Option<CloseReason>,
    ) {
        let logged = manner.logged.as_deref();
        let manner = Manner {
            head_only: false,
            keep_alive: manner.keep_alive && end.is_none() && !self.shared.takes_no_streams(),
            version: manner.version,
            cors: cors(&table.live.cors_origins, manner.origin.as_deref()),
            end,
        };
        let bytes = Self::write(&mut self.date, table, key, answer, &manner);
        self.note_later(table, logged, Some((answer.status, bytes)), None);
    }
}
