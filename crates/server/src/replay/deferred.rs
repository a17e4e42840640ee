//! Sessions for which no events are planned while they cannot be sent any.

use reactor::{Driver, SlotKey};
use router::{Mailboxes, Router};
use wire::encoding::Encoding;

use crate::session::Sessions;
use crate::table::{ConnectionTable, Phase};

/// Defers the sessions that hold many events and cannot be fed, as their sockets are full.
pub(crate) fn defer_behind<D: Driver, M: Mailboxes>(
    table: &ConnectionTable<D>,
    sessions: &mut Sessions,
    router: &Router<M>,
) {
    for key in sessions.replays.take_to_defer() {
        let Some(connection) = table.get(key).filter(|connection| connection.blocked) else {
            continue;
        };
        // A session with several ids would be counted for each of those that an event is for, and
        // on the wire of 2008 some events do not count.
        if let Phase::Open(session) = connection.phase
            && !session.marks.has_several()
            && session.encoding != Encoding::TestPlain
            && sessions.replays.defer(key)
        {
            router.defer(session.key, sessions.name(key));
        }
    }
}

/// Lets events be planned again for a session, if it is deferred.
pub(crate) fn undefer<D: Driver, M: Mailboxes>(
    table: &ConnectionTable<D>,
    sessions: &mut Sessions,
    router: &Router<M>,
    key: SlotKey,
) {
    if !sessions.replays.is_deferred(key) {
        return;
    }
    if let Some(session) = table.session(key) {
        let events = router.undefer(session.key, sessions.name(key));
        // Read after it, as after a login: what was planned before is posted by then.
        sessions.replays.undefer(key, events, router.period() + 2);
    }
}
