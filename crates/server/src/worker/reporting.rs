//! Reports on the slowest readers.

use reactor::Driver;

use super::Worker;
use crate::inspect::session_report;

impl<D: Driver> Worker<D> {
    /// Goes on with the search for the slowest readers, and reports when it is over.
    pub(super) fn search_slowest(&mut self) {
        let Some(slowest) = self
            .slowest
            .advance(self.table.backlogs(), self.table.limits)
        else {
            return;
        };
        let mut reports = Vec::new();
        for &index in &slowest.slots {
            // Some backlogs may have become empty since they were visited.
            if self.table.backlogs().get(index).is_some()
                && let Some((key, _)) = self.table.at(index)
            {
                let router = &self.shared.router;
                reports.extend(session_report(&mut self.table, &self.sessions, router, key));
            }
        }
        slowest.answer(&reports);
    }
}
