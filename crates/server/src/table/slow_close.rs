//! Ends of sessions whose backlogs are full.

use reactor::{Driver, SlotKey};
use wire::websocket::{CloseCode, push_close};

use super::backlog::Piece;
use super::send::Queued;
use super::{CloseReason, ConnectionTable, Phase};
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

impl<D: Driver> ConnectionTable<D> {
    /// Lets the kernel forget what it keeps for a connection that is closed because its peer reads
    /// too slowly. Else it would keep that until the peer has read it, or for `--user-timeout`.
    pub(super) fn reset_if_unread(&mut self, key: SlotKey, reason: CloseReason, blocked: bool) {
        let Some(connection) = self.slots.get(key) else {
            return;
        };
        let is_unread = match reason {
            CloseReason::Timeout => blocked,
            CloseReason::Slow => {
                blocked || {
                    let info = self.driver.tcp_info(&connection.socket);
                    info.is_some_and(|info| info.unacknowledged > 0)
                }
            }
            _ => false,
        };
        if is_unread {
            self.driver.reset_on_close(&connection.socket);
        }
    }

    /// Ends a session whose backlog is full. A WebSocket client learns why, behind the frame that
    /// it has begun to read: the events that wait give way. Others are closed.
    pub(crate) fn close_slow(&mut self, key: SlotKey) {
        let phase = self.slots.get(key).map(|connection| connection.phase);
        if !matches!(phase, Some(Phase::Open(session)) if session.may_talk()) {
            return self.close(key, CloseReason::Slow);
        }
        let bytes_max = self.live.backlog_bytes;
        // All of them: a later one that arrived would move the client's cursor beyond the others.
        let all = bytes_max.saturating_sub(size_of::<Piece>());
        let dropped = self
            .backlogs
            .make_room(key.index, all, SlowPolicy::DropOldest, bytes_max);
        self.stats.take(Metric::BacklogBytes, dropped.freed as u64);
        self.stats
            .add(Metric::DeliveriesLost, dropped.dropped.into());
        let mut last = Vec::new();
        push_close(CloseCode::SLOW, "the client reads too slowly", &mut last);
        let piece = Piece::of(self.backlogs.memory().share(&last));
        match self.queue(key, piece, SlowPolicy::Close) {
            Queued::Full => self.close(key, CloseReason::Slow),
            Queued::Waits | Queued::Dropped => self.end(key, CloseReason::Slow),
        }
    }
}
