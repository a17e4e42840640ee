//! Limits that keep a machine from holding a number of connections, and their remedies.
//!
//! `readings` reads the machine, and nothing else does. `capacity` has arithmetic about
//! descriptors. `descriptors`, `network` and `memory` each check a part of the readings. `settings`
//! gives the settings needed on an unknown machine. `apply` changes settings, and nothing else
//! does.

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

use readings::Readings;

/// Workload that the machine is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Connections to one server.
    pub connections: u64,
    /// Workers of the server.
    pub workers: u64,
    /// Whether each worker has its own descriptor table.
    pub private_fds: bool,
    /// Whether the clients run on this machine too, so that both ends of each connection are here.
    pub both_ends: bool,
}

impl Workload {
    /// Number of ends of connections on this machine.
    fn ends(&self) -> u64 {
        self.connections * if self.both_ends { 2 } else { 1 }
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// Nothing to do.
    #[serde(rename = "well")]
    Ok,
    /// The workload runs, and would run better with the remedy.
    #[serde(rename = "better")]
    Advice,
    /// The machine cannot hold the connections.
    #[serde(rename = "stops")]
    Blocker,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub name: &'static str,
    /// Severity.
    pub level: Severity,
    /// Value found.
    pub found: String,
    /// Value needed.
    pub needed: String,
    /// Why it is needed.
    pub why: &'static str,
    /// What to do, the simplest first. One of them is enough, except that all settings are needed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
}

impl Finding {
    fn new(name: &'static str, why: &'static str) -> Self {
        Self {
            name,
            level: Severity::Ok,
            found: String::new(),
            needed: String::new(),
            why,
            remedies: Vec::new(),
        }
    }

    fn found(mut self, found: impl Into<String>) -> Self {
        self.found = found.into();
        self
    }

    fn needed(mut self, needed: impl Into<String>) -> Self {
        self.needed = needed.into();
        self
    }

    /// Raises the severity to `level` if `bad`.
    fn when(mut self, bad: bool, level: Severity) -> Self {
        if bad {
            self.level = self.level.max(level);
        }
        self
    }

    /// Adds a remedy if `helps`.
    fn remedy_if(self, helps: bool, remedy: impl FnOnce() -> Remedy) -> Self {
        if helps { self.remedy(remedy) } else { self }
    }

    /// Adds a remedy, unless the finding is [`Severity::Ok`].
    fn remedy(mut self, remedy: impl FnOnce() -> Remedy) -> Self {
        if self.level > Severity::Ok {
            self.remedies.push(remedy());
        }
        self
    }
}

/// Change that resolves a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// A kernel setting (`sysctl`), which [`apply`] can change.
    Setting {
        /// Name with dots.
        name: &'static str,
        /// New value.
        value: String,
    },
    /// A file below `/sys` that takes a word, which [`apply`] can change.
    Switch {
        /// Path of the file.
        path: &'static str,
        /// Word to write.
        word: &'static str,
    },
    /// A command or change that the user has to make.
    Advice(String),
}

impl Remedy {
    fn setting(name: &'static str, value: impl ToString) -> Self {
        let value = value.to_string();
        Self::Setting { name, value }
    }

    fn advice(text: impl Into<String>) -> Self {
        Self::Advice(text.into())
    }

    /// Returns the command to run, or the advice.
    pub fn command(&self) -> String {
        match self {
            Self::Setting { name, value } if value.contains(' ') => {
                format!("sysctl -w {name}=\"{value}\"")
            }
            Self::Setting { name, value } => format!("sysctl -w {name}={value}"),
            Self::Switch { path, word } => format!("echo {word} > {path}"),
            Self::Advice(text) => text.clone(),
        }
    }
}

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
