//! What control threads ask about sessions: answered from the record and by the kernel, at the moment of
//! asking.

use reactor::Driver;
use router::Target;

use crate::connection::{CloseReason, Phase};
use crate::limits::{DRAIN_SLOTS_PER_TURN, INSPECTED_MAX};
use crate::mail::{Report, SessionReport};
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    pub(crate) fn inspect(&mut self, targets: &[Target], report: Report) {
        let targets = &targets[..targets.len().min(INSPECTED_MAX)];
        let reports = targets
            .iter()
            .filter_map(|&target| self.session_report(target))
            .collect();
        report(reports);
    }

    pub(crate) fn session_report(&mut self, target: Target) -> Option<SessionReport> {
        let name = self.name(target);
        let connection = self.connections.get(target.slot, target.generation)?;
        let Phase::Open(session) = connection.phase else {
            return None;
        };
        let backlog = self.backlogs.get(target.slot);
        let graph = self.shared.router.graph();
        let keys = self.sessions.keys(target.slot, &session);
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
            let Some(target) = self.kicked.pop_front() else {
                return;
            };
            self.end_stream(target, None, CloseReason::Kicked);
        }
    }
}
