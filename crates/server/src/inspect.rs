//! What control threads ask about sessions: answered from the record and by the kernel, at the moment of
//! asking.

use reactor::Driver;
use reactor::SlotKey;

use crate::connection::{CloseReason, Phase};
use crate::limits::{DRAIN_SLOTS_PER_TURN, INSPECTED_MAX};
use crate::mail::{Report, SessionReport};
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    pub(crate) fn inspect(&mut self, recipients: &[SlotKey], report: Report) {
        let recipients = &recipients[..recipients.len().min(INSPECTED_MAX)];
        let reports = recipients
            .iter()
            .filter_map(|&key| self.session_report(key))
            .collect();
        report(reports);
    }

    pub(crate) fn session_report(&mut self, key: SlotKey) -> Option<SessionReport> {
        let name = self.name(key);
        let connection = self.connections.get_mut(key)?;
        let Phase::Open(session) = connection.phase else {
            return None;
        };
        let backlog = self.backlogs.get(key.index);
        let graph = self.shared.router.graph();
        let keys = self.sessions.keys(key.index, &session);
        let metrics = self.driver.tcp_info(&connection.socket);
        Some(SessionReport {
            session: name,
            ids: keys.iter().filter_map(|&key| graph.name(key)).collect(),
            transport: session.transport.name(),
            age: self.clock.now.since(connection.since.tick()),
            peer: self.driver.peer(&connection.socket),
            backlog_frames: backlog.map_or(0, |backlog| backlog.events()),
            backlog_bytes: backlog.map_or(0, |backlog| backlog.bytes()),
            bytes_acknowledged: metrics.map(|metrics| metrics.acknowledged),
            bytes_unacknowledged: metrics.map(|metrics| metrics.unacknowledged),
        })
    }

    /// Logs sessions out and ends their streams, a turn's worth of those that are to be.
    pub(crate) fn kick(&mut self) {
        for _ in 0..DRAIN_SLOTS_PER_TURN {
            let Some(key) = self.kicked.pop_front() else {
                return;
            };
            self.end_stream(key, None, CloseReason::Kicked);
        }
    }
}
