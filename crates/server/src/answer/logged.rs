//! Entries of the access log for requests. Without a log, nothing is looked up.

use std::net::IpAddr;
use std::time::Duration;

use auth::Policy;
use reactor::{Driver, SlotKey, Tick};
use wire::head::Request;
use wire::status::Status;

use super::responder::Responder;
use crate::access_log::{AccessEntry, Accessed, LoggedRequest};
use crate::client_address;
use crate::table::ConnectionTable;

/// What is kept for the log of a request that is answered later.
#[derive(Debug)]
pub(crate) struct LoggedLater {
    request: LoggedRequest,
    client: Option<IpAddr>,
    since: Tick,
}

/// Returns the client of a request; without a request, that of its connection.
pub(crate) fn client_of<D: Driver>(
    table: &ConnectionTable<D>,
    key: SlotKey,
    request: Option<&Request<'_>>,
    policy: &Policy,
) -> Option<IpAddr> {
    let origin = table.origin(key)?;
    Some(match request {
        Some(request) => client_address::of_request(policy, request, origin),
        None => origin.address().ip(),
    })
}

impl Responder {
    /// Notes a request that was answered at once in the access log, if there is one.
    pub(crate) fn note<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        request: Option<&Request<'_>>,
        status: Status,
        bytes: u64,
    ) {
        let Some(log) = &self.shared.settings.access_log else {
            return;
        };
        log.note(AccessEntry {
            time: table.clock.unix_seconds,
            client: client_of(table, key, request, &table.live.policy),
            what: Accessed::Request(request.map(LoggedRequest::of)),
            status: Some(status.code()),
            bytes: Some(bytes),
            duration: Duration::ZERO,
            reason: None,
        });
    }

    /// Returns what must be kept of a request that is answered later, if there is an access log.
    pub(super) fn to_log<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
    ) -> Option<Box<LoggedLater>> {
        self.shared.settings.access_log.as_ref()?;
        Some(Box::new(LoggedLater {
            request: LoggedRequest::of(request),
            client: client_of(table, key, Some(request), &table.live.policy),
            since: table.clock.now,
        }))
    }

    /// Notes a request that has waited, with its answer or why there is none.
    pub(super) fn note_later<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        logged: Option<&LoggedLater>,
        answer: Option<(Status, u64)>,
        reason: Option<&'static str>,
    ) {
        let (Some(log), Some(logged)) = (&self.shared.settings.access_log, logged) else {
            return;
        };
        log.note(AccessEntry {
            time: table.clock.unix_seconds,
            client: logged.client,
            what: Accessed::Request(Some(logged.request.clone())),
            status: answer.map(|(status, _)| status.code()),
            bytes: answer.map(|(_, bytes)| bytes),
            duration: table.clock.now.since(logged.since),
            reason,
        });
    }
}
