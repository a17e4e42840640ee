//! Reports on sessions, read from the record and the kernel at the time of the request.

use reactor::{Driver, SlotKey};
use router::Router;

use crate::client_address::Origin;
use crate::limits::INSPECTED_MAX;
use crate::mail::{GapReport, Report, SessionReport};
use crate::post::Post;
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
    let (ids, transport) = match &connection.phase {
        Phase::Open(session) => {
            let ids = sessions.keys(key.index, session);
            (ids, session.encoding.transport().name())
        }
        _ => (sessions.polls.keys(key)?, "poll"),
    };
    let ids = ids.iter();
    let ids = ids.filter_map(|&id| router.graph().name(id)).collect();
    let since = connection.since.tick();
    let info = table.tcp_info(key);
    let backlog = table.backlogs().get(key.index);
    let now = table.clock.now;
    let last_gap = table.recent_gaps().of(key).map(|gap| GapReport {
        lost: gap.lost,
        ago: now.since(gap.told),
    });
    Some(SessionReport {
        session: sessions.name(key),
        ids,
        transport,
        age: table.clock.now.since(since),
        peer: table.origin(key).map(Origin::address),
        backlog_frames: backlog.map_or(0, |backlog| backlog.events()),
        backlog_bytes: backlog.map_or(0, |backlog| backlog.bytes()),
        bytes_acknowledged: info.map(|info| info.acknowledged),
        bytes_unacknowledged: info.map(|info| info.unacknowledged),
        is_behind: sessions.replays.is_fed(key),
        last_gap,
    })
}
