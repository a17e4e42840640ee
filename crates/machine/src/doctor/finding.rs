//! What a machine is checked for, and the result of one check.

use serde::Serialize;

use crate::humanize::count;

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
    pub(super) fn ends(&self) -> u64 {
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
    pub(super) fn new(name: &'static str, why: &'static str) -> Self {
        Self {
            name,
            level: Severity::Ok,
            found: String::new(),
            needed: String::new(),
            why,
            remedies: Vec::new(),
        }
    }

    pub(super) fn found(mut self, found: impl Into<String>) -> Self {
        self.found = found.into();
        self
    }

    pub(super) fn needed(mut self, needed: impl Into<String>) -> Self {
        self.needed = needed.into();
        self
    }

    /// Raises the severity to `level` if `bad`.
    pub(super) fn when(mut self, bad: bool, level: Severity) -> Self {
        if bad {
            self.level = self.level.max(level);
        }
        self
    }

    /// Adds a remedy if `helps`.
    pub(super) fn remedy_if(self, helps: bool, remedy: impl FnOnce() -> Remedy) -> Self {
        if helps { self.remedy(remedy) } else { self }
    }

    /// Adds a remedy, unless the finding is [`Severity::Ok`].
    pub(super) fn remedy(mut self, remedy: impl FnOnce() -> Remedy) -> Self {
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
    /// A kernel setting (`sysctl`), which [`apply`](super::apply) can change.
    Setting {
        /// Name with dots.
        name: &'static str,
        /// New value.
        value: String,
    },
    /// A file below `/sys` that takes a word, which [`apply`](super::apply) can change.
    Switch {
        /// Path of the file.
        path: &'static str,
        /// Word to write.
        word: &'static str,
    },
    /// A command or change that the user has to make.
    Advice(String),
}

/// A limit of the kernel on a number of things.
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
    /// What follows the number in the finding.
    pub(super) unit: &'static str,
    pub(super) setting: &'static str,
}

impl Limit {
    /// Checks that the limit is `needed` or more.
    pub(super) fn check(self, found: u64, needed: u64) -> Finding {
        Finding::new(self.name, self.why)
            .found(format!("{} {}", count(found), self.unit))
            .needed(count(needed))
            .when(found < needed, Severity::Advice)
            .remedy(|| Remedy::setting(self.setting, needed))
    }
}

impl Remedy {
    pub(super) fn setting(name: &'static str, value: impl ToString) -> Self {
        let value = value.to_string();
        Self::Setting { name, value }
    }

    pub(super) fn advice(text: impl Into<String>) -> Self {
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
