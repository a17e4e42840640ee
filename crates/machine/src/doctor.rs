//! Limits that keep a machine from holding a number of connections, and their remedies.
//!
//! `readings` reads the machine, and nothing else does. `capacity` has arithmetic about
//! descriptors. `descriptors`, `network` and `memory` each check a part of the readings. `settings`
//! gives the settings needed on an unknown machine. `apply` changes settings, and nothing else
//! does.

mod finding;
pub mod readings;
pub mod capacity;
mod descriptors;
mod memory;
mod network;
pub mod settings;
pub mod apply;
#[cfg(test)]
mod tests;

use serde::Serialize;

use finding::Limit;
pub use finding::{Finding, Remedy, Severity, Workload};
use readings::Readings;

/// All findings about one machine and workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Workload that was checked.
    pub wanted: Workload,
    /// Whether no finding is a [`Severity::Blocker`].
    pub well: bool,
    /// All findings, the worst first.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Checks `readings` against the workload.
    pub fn of(readings: &Readings, wanted: Workload) -> Self {
        let mut findings: Vec<Finding> = [
            descriptors::findings(readings, &wanted),
            memory::findings(readings, &wanted),
            network::findings(readings, &wanted),
        ]
        .concat();
        // The sort is stable: findings of equal severity stay in the order of a connection's life.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        Self {
            wanted,
            well: findings
                .iter()
                .all(|finding| finding.level < Severity::Blocker),
            findings,
        }
    }

    /// Returns the number of findings with this severity.
    pub fn count(&self, level: Severity) -> usize {
        let same = |finding: &&Finding| finding.level == level;
        self.findings.iter().filter(same).count()
    }

    /// Iterates over the remedies that can be applied.
    pub fn changes(&self) -> impl Iterator<Item = &Remedy> {
        self.findings
            .iter()
            .flat_map(|finding| &finding.remedies)
            .filter(|remedy| !matches!(remedy, Remedy::Advice(_)))
    }

    /// Returns the text of a file for `/etc/sysctl.d` with the settings to change and their
    /// reasons.
    pub fn sysctl_conf(&self) -> String {
        let connections = crate::humanize::count(self.wanted.connections);
        let mut text = format!(
            "# Kernel settings for {connections} connections, by `encke doctor --sysctl-conf`.\n\
             # Install: write it to /etc/sysctl.d/90-encke.conf, then: sysctl --system\n"
        );
        let mut any = false;
        for finding in &self.findings {
            for remedy in &finding.remedies {
                if let Remedy::Setting { name, value } = remedy {
                    let Finding {
                        name: what,
                        why,
                        found,
                        ..
                    } = finding;
                    text.push_str(&format!(
                        "\n# {what}: {why}.\n# Found: {found}.\n{name} = {value}\n"
                    ));
                    any = true;
                }
            }
        }
        if !any {
            text.push_str("\n# No setting has to change on this machine.\n");
        }
        text
    }
}
