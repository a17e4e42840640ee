//! Reports on sessions, read from the record and the kernel at the time of the request.

use reactor::{Driver, SlotKey};
use router::Router;

use crate::limits::INSPECTED_MAX;
use crate::mail::{Post, Report, SessionReport};
use crate::session::Sessions;
use crate::table::{ConnectionTable, Phase};

/// Reports on those of the sessions that exist.
pub(crate) fn inspect<D: Driver>(
    table: &mut ConnectionTable<D>,
    sessions: &Sessions,
    router: &Router<Post>,
    keys: &[SlotKey],
    report: Report,
) {
    let keys = &keys[..keys.len().min(INSPECTED_MAX)];
    let reports = keys
        .iter()
        .filter_map(|&key| session_report(table, sessions, router, key))
        .collect();
    report(reports);
}

/// Reports on the session in a slot, if there is one.
pub(crate) fn session_report<D: Driver>(
    table: &mut ConnectionTable<D>,
    sessions: &Sessions,
    router: &Router<Post>,
    key: SlotKey,
) -> Option<SessionReport> {
    let connection = table.get(key)?;
    let Phase::Open(session) = connection.phase else {
        return None;
    };
    let since = connection.since.tick();
    let (peer, info) = table.peer(key);
    let backlog = table.backlogs().get(key.index);
    let ids = sessions.keys(key.index, &session).iter();
    Some(SessionReport {
        session: sessions.name(key),
        ids: ids.filter_map(|&id| router.graph().name(id)).collect(),
        transport: session.transport.name(),
        age: table.clock.now.since(since),
        peer,
        backlog_frames: backlog.map_or(0, |backlog| backlog.events()),
        backlog_bytes: backlog.map_or(0, |backlog| backlog.bytes()),
        bytes_acknowledged: info.map(|info| info.acknowledged),
        bytes_unacknowledged: info.map(|info| info.unacknowledged),
    })
}
