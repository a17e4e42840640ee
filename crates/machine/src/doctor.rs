//! What stops a machine from holding so many connections, and what to do about it.
//!
//! `readings` is what the machine says, and the only part that asks it; `capacity` is arithmetic
//! about descriptors; `descriptors`, `network` and `memory` each judge a part of the readings;
//! `settings` is what they prescribe where nothing is known of a machine; `apply` changes settings
//! and tells how to undo it. Nothing is changed anywhere else.

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

/// What the machine is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Connections to one server.
    pub connections: u64,
    /// The server's workers.
    pub workers: u64,
    /// Whether each worker has a descriptor table of its own.
    pub private_fds: bool,
    /// Whether the clients run here too: each connection has both its ends on this machine.
    pub both_ends: bool,
}

impl Workload {
    /// Ends of connections on this machine.
    fn ends(&self) -> u64 {
        self.connections * if self.both_ends { 2 } else { 1 }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// Nothing to do.
    #[serde(rename = "well")]
    Ok,
    /// It works, and would work better with the remedy.
    #[serde(rename = "better")]
    Advice,
    /// So many connections cannot be held.
    #[serde(rename = "stops")]
    Blocker,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How bad it is.
    pub level: Severity,
    /// What was found.
    pub found: String,
    /// What is needed.
    pub needed: String,
    /// What happens otherwise.
    pub why: &'static str,
    /// What to do, the simplest first; one of them is enough unless they are settings.
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

    /// Makes it as bad as this where `bad`.
    fn when(mut self, bad: bool, level: Severity) -> Self {
        if bad {
            self.level = self.level.max(level);
        }
        self
    }

    /// Adds a remedy where `helps`.
    fn remedy_if(self, helps: bool, remedy: impl FnOnce() -> Remedy) -> Self {
        if helps { self.remedy(remedy) } else { self }
    }

    /// Adds a remedy, which only a finding that is not well has.
    fn remedy(mut self, remedy: impl FnOnce() -> Remedy) -> Self {
        if self.level > Severity::Ok {
            self.remedies.push(remedy());
        }
        self
    }
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// A kernel setting (`sysctl`), which can be applied.
    Setting {
        /// Its name, with dots.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A file below `/sys` that takes a word, which can be applied.
    Switch {
        /// The file.
        path: &'static str,
        /// The word.
        word: &'static str,
    },
    /// A command or a change that is somebody else's to make.
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

    /// What to type.
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

/// All findings about one machine and one wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What was asked.
    pub wanted: Workload,
    /// Whether nothing stops it.
    pub well: bool,
    /// What was looked at, the worst first.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Judges `readings`.
    pub fn of(readings: &Readings, wanted: Workload) -> Self {
        let mut findings: Vec<Finding> = [
            descriptors::findings(readings, &wanted),
            memory::findings(readings, &wanted),
            network::findings(readings, &wanted),
        ]
        .concat();
        // Among equals the order is that in which a connection meets them.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        Self {
            wanted,
            well: findings
                .iter()
                .all(|finding| finding.level < Severity::Blocker),
            findings,
        }
    }

    /// How many findings are as bad as this.
    pub fn count(&self, level: Severity) -> usize {
        let same = |finding: &&Finding| finding.level == level;
        self.findings.iter().filter(same).count()
    }

    /// Everything that can be applied.
    pub fn changes(&self) -> impl Iterator<Item = &Remedy> {
        self.findings
            .iter()
            .flat_map(|finding| &finding.remedies)
            .filter(|remedy| !matches!(remedy, Remedy::Advice(_)))
    }

    /// A file for `/etc/sysctl.d` with the settings that are to change, each with its reason.
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
            text.push_str("\n# Nothing has to change on this machine.\n");
        }
        text
    }
}
