//! Watched process, found by pid or name. A later process with the same pid is recognised as
//! another one.

use std::fmt;
use std::fs;
use std::path::Path;

use super::row::ProcessMetrics;
use crate::measure::Memory;
use machine::failure::{Failure, Outcome};
use machine::host::number_after;

/// Selection of the process to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessSelector {
    /// The process with this pid. When it ends, nothing is watched.
    Pid(u32),
    /// The longest-running process of this name; when it ends, the next one. A name without spaces
    /// is that of the program. A name with spaces is the beginning of the command line without the
    /// program's directory, for instance `encke serve`.
    Name(String),
}

/// Change of the watched process since the last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A process was found.
    Found {
        /// Its pid.
        pid: u32,
        /// Pids of others with the same name, which are not watched.
        others: Vec<u32>,
    },
    /// The process with this pid has ended.
    Ended(u32),
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { pid, others } => {
                write!(out, "watching process {pid}")?;
                if !others.is_empty() {
                    let others: Vec<String> = others.iter().map(u32::to_string).collect();
                    write!(
                        out,
                        ", the longest-running of its name; to watch another, pass --pid {}",
                        others.join(" or ")
                    )?;
                }
                Ok(())
            }
            Self::Ended(pid) => write!(
                out,
                "process {pid} has ended; recording of the machine goes on (interrupt to stop)"
            ),
        }
    }
}

/// Identity of a process: its pid, and its start time in ticks, as pids are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    pid: u32,
    started: u64,
}

/// Watch on a process. Lives as long as the recording.
#[derive(Debug)]
pub struct Watch {
    whom: ProcessSelector,
    now: Option<Identity>,
    /// The process with the selected pid has ended.
    over: bool,
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    threads: u64,
    started: u64,
    /// Ended, but not yet reaped by its parent.
    dead: bool,
}

impl Watch {
    /// Starts to watch. A process selected by its pid must exist.
    ///
    /// # Errors
    ///
    /// When the process is selected by its number and does not exist.
    pub fn start(whom: ProcessSelector) -> Outcome<Self> {
        if let ProcessSelector::Pid(pid) = whom
            && stat_of(pid).is_none()
        {
            return Err(Failure::new(format!(
                "there is no process {pid}: `pgrep -a NAME` finds one, and --name waits for one"
            )));
        }
        Ok(Self {
            whom,
            now: None,
            over: false,
        })
    }

    /// Reads the metrics of the process without the expensive ones, and the changes since the last
    /// read.
    pub fn read(&mut self) -> (Option<ProcessMetrics>, Vec<Change>) {
        let mut changes = Vec::new();
        if let Some(identity) = self.now {
            if let Some(metrics) = metrics_of(identity) {
                return (Some(metrics), changes);
            }
            changes.push(Change::Ended(identity.pid));
            self.now = None;
            self.over = matches!(self.whom, ProcessSelector::Pid(_));
        }
        let found = if self.over { None } else { find(&self.whom) };
        let Some((identity, others)) = found else {
            return (None, changes);
        };
        self.now = Some(identity);
        let pid = identity.pid;
        changes.push(Change::Found { pid, others });
        (metrics_of(identity), changes)
    }

    /// Adds the memory metrics that need a walk over the process's page tables.
    pub fn add_memory_details(metrics: &mut ProcessMetrics) {
        if let Ok(memory) = Memory::of(metrics.pid) {
            metrics.resident = memory.resident;
            metrics.proportional = Some(memory.proportional);
            metrics.private = Some(memory.private);
        }
    }
}

fn find(whom: &ProcessSelector) -> Option<(Identity, Vec<u32>)> {
    let mut found: Vec<Identity> = match whom {
        ProcessSelector::Pid(pid) => identity_of(*pid).into_iter().collect(),
        ProcessSelector::Name(name) => named(name),
    };
    found.sort_by_key(|identity| (identity.started, identity.pid));
    let others = found.iter().skip(1).map(|identity| identity.pid).collect();
    Some((*found.first()?, others))
}

fn identity_of(pid: u32) -> Option<Identity> {
    let started = stat_of(pid)?.started;
    Some(Identity { pid, started })
}

/// Returns all processes of this name except this one.
fn named(name: &str) -> Vec<Identity> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid: &u32| pid != own)
        .filter(|pid| {
            let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            is_called(name, read("comm").trim_end(), &read("cmdline"))
        })
        .filter_map(identity_of)
        .collect()
}

/// Whether `name` selects a process. `comm` is the first 15 bytes of its program's name, or the
/// name that it has set; `command_line` has a zero byte after each word.
fn is_called(name: &str, comm: &str, command_line: &str) -> bool {
    let mut words = command_line.trim_end_matches('\0').split('\0');
    let program = words.next().unwrap_or_default();
    let program = Path::new(program)
        .file_name()
        .map_or(program.into(), |name| name.to_string_lossy());
    if !name.contains(' ') {
        return comm == name || program == name;
    }
    let line = words.fold(program.into_owned(), |line, word| line + " " + word);
    line == name
        || line
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(' '))
}

/// Reads the state of a process that runs.
pub(crate) fn stat_of(pid: u32) -> Option<Stat> {
    let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    (!stat.dead).then_some(stat)
}

/// Parses the fields after the command's name, which may contain any characters and ends at the
/// last parenthesis.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse().ok();
    Some(Stat {
        user_ticks: number(11)?,
        system_ticks: number(12)?,
        threads: number(17)?,
        started: number(19)?,
        dead: matches!(*fields.first()?, "Z" | "X"),
    })
}

fn metrics_of(identity: Identity) -> Option<ProcessMetrics> {
    let pid = identity.pid;
    let stat = stat_of(pid).filter(|stat| stat.started == identity.started)?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Some(ProcessMetrics {
        pid,
        resident: number_after(
            &fs::read_to_string(format!("/proc/{pid}/status")).ok()?,
            "VmRSS:",
        )? * 1024,
        proportional: None,
        private: None,
        user_seconds: stat.user_ticks as f64 / ticks,
        system_seconds: stat.system_ticks as f64 / ticks,
        threads: stat.threads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn names_match_programs_and_beginnings_of_command_lines() {
        let line = "/opt/bin/encke\0serve\0--workers\x008\0";
        for name in [
            "encke",
            "encke-main",
            "encke serve",
            "encke serve --workers 8",
        ] {
            assert!(is_called(name, "encke-main", line), "{name}");
        }
        for name in [
            "enck",
            "serve",
            "encke ser",
            "encke-lab flood",
            "/opt/bin/encke",
        ] {
            assert!(!is_called(name, "encke-main", line), "{name}");
        }
        assert!(is_called("kworker", "kworker", ""));
    }

    #[test]
    fn the_command_may_have_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20";
        let stat = parse_stat(stat).unwrap();
        assert_eq!((stat.user_ticks, stat.system_ticks), (11, 12));
        assert_eq!((stat.threads, stat.started, stat.dead), (17, 19, false));
        assert!(parse_stat("7 (a) Z 1 2").is_none());
    }

    /// Spawns a process that waits for the end of its input.
    fn child() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    #[test]
    fn an_end_is_reported_once_and_a_pid_is_not_searched_again() {
        let mut child = child();
        let mut watch = Watch::start(ProcessSelector::Pid(child.id())).unwrap();
        let (metrics, changes) = watch.read();
        assert!(metrics.is_some_and(|metrics| metrics.threads == 1));
        let others = Vec::new();
        let pid = child.id();
        assert_eq!(changes, [Change::Found { pid, others }]);
        assert_eq!(watch.read().1, []);
        child.kill().unwrap();
        // Killed but not reaped: it counts as ended.
        let dead = || stat_of(pid).is_none();
        while !dead() {
            std::thread::yield_now();
        }
        assert_eq!(watch.read(), (None, vec![Change::Ended(pid)]));
        assert_eq!(watch.read(), (None, Vec::new()));
        child.wait().unwrap();
        let error = Watch::start(ProcessSelector::Pid(pid))
            .unwrap_err()
            .to_string();
        assert!(error.contains("there is no process"), "{error}");
    }

    #[test]
    fn the_next_process_of_a_name_is_watched_when_the_first_ends() {
        // No other process has this command line.
        let line = format!("cat - /dev/null/{}", std::process::id());
        let start = || {
            let mut command = Command::new("cat");
            command.args(line.split(' ').skip(1));
            command.stdin(Stdio::piped()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let mut watch = Watch::start(ProcessSelector::Name(line.clone())).unwrap();
        assert_eq!(watch.read(), (None, Vec::new()));
        let mut first = start();
        let found = |watch: &mut Watch| loop {
            // Between fork and exec it does not have the name yet.
            if let (Some(metrics), changes) = watch.read() {
                break (metrics.pid, changes);
            }
        };
        assert_eq!(found(&mut watch).0, first.id());
        first.kill().unwrap();
        first.wait().unwrap();
        let mut second = start();
        let (pid, _) = found(&mut watch);
        assert_eq!(pid, second.id());
        second.kill().unwrap();
        second.wait().unwrap();
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_watched() {
        let identity = identity_of(std::process::id()).unwrap();
        assert!(metrics_of(identity).is_some());
        let started = identity.started + 1;
        assert!(
            metrics_of(Identity {
                started,
                ..identity
            })
            .is_none()
        );
    }
}
