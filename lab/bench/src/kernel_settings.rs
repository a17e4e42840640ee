//! Kernel settings that are changed for a measurement and restored afterwards.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use machine::doctor::apply::{self, Change};
use machine::doctor::readings::Readings;
use machine::doctor::{Diagnosis, Remedy, Workload};
use machine::failure::Failure;

/// Findings of the doctor whose settings are changed. The others matter only for a permanent server
/// and are left to its operator.
const SET: [&str; 7] = [
    "open files",
    "firewall table",
    "accept queue",
    "handshakes",
    "TCP memory",
    "orphaned connections",
    "device queue",
];

/// Rounds of connections that a firewall may still track when the next one begins.
const ROUNDS_TRACKED: u64 = 3;

/// Changes that are in force, which an interrupt reverts.
static IN_FORCE: Mutex<Vec<Change>> = Mutex::new(Vec::new());

fn in_force() -> MutexGuard<'static, Vec<Change>> {
    IN_FORCE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reverts all changes in force, for a process that is about to exit.
pub(crate) fn revert_all() {
    // An error here cannot be reported any more.
    let _ = apply::revert(&in_force());
}

/// Changed settings. Dropping it restores them. There is one at a time.
#[derive(Debug, Default)]
pub(crate) struct ChangedSettings(Vec<Change>);

impl ChangedSettings {
    /// Changes the settings of which `diagnosis` says that they are too low. Also returns why the
    /// system refused one, after which the others were not changed.
    pub(crate) fn make(diagnosis: &Diagnosis) -> (Self, Option<Failure>) {
        let findings = diagnosis.findings.iter();
        let remedies = findings
            .filter(|finding| SET.contains(&finding.name))
            .flat_map(|finding| &finding.remedies)
            .filter(|remedy| matches!(remedy, Remedy::Setting { .. }));
        let applied = apply::apply(remedies, Path::new("/"));
        in_force().clone_from(&applied.made);
        (Self(applied.made), applied.refused)
    }

    /// Changes what a flood of `connections` to a server on this machine needs. Only warns if the
    /// system refuses: the measurement reports it if a limit is reached.
    pub(crate) fn for_flood(connections: u32) -> Self {
        let wanted = Workload {
            connections: u64::from(connections) * ROUNDS_TRACKED,
            workers: 1,
            private_fds: true,
            both_ends: true,
        };
        let (changed, refused) = Self::make(&Diagnosis::of(&Readings::of_machine(), wanted));
        if let Some(why) = refused {
            eprintln!("warning: kernel settings are too low and were not changed: {why}");
        }
        changed
    }

    /// Returns the commands that make the same changes.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.0.iter().map(|change| change.command.clone()).collect()
    }
}

impl Drop for ChangedSettings {
    fn drop(&mut self) {
        if let Err(failure) = apply::revert(&self.0) {
            eprintln!("warning: {failure}");
        }
        in_force().clear();
    }
}
