//! The process that is watched: found by its number or its name, and told apart from a stranger who
//! gets its number later.

use std::fmt;
use std::fs;
use std::path::Path;

use super::row::ProcessFigures;
use crate::failure::{Failure, Outcome};
use crate::measure::Memory;

/// ProcessSelector to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessSelector {
    /// One process. When it ends there is none.
    Pid(u32),
    /// The longest-running process of this name; when it ends, the next one. A name without a
    /// blank is that of the program; with blanks it is the beginning of the command line, the
    /// program's folder left out: `encke serve`.
    Name(String),
}

/// What became of the process since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// There is one now.
    Found {
        /// It.
        pid: u32,
        /// Others of the same name, which are not watched.
        others: Vec<u32>,
    },
    /// There is none any more.
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
                "process {pid} has ended; recording the machine goes on (interrupt to stop)"
            ),
        }
    }
}

/// A process among all that have ever had its number: it started at this tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    pid: u32,
    started: u64,
}

/// Watches a process. Lives as long as the recording.
#[derive(Debug)]
pub struct Watch {
    whom: ProcessSelector,
    now: Option<Identity>,
    /// A number that was watched and has ended is not looked for again.
    over: bool,
}

/// The part of `/proc/PID/stat` that is needed.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    system_ticks: u64,
    threads: u64,
    started: u64,
    /// Ended, and not yet taken note of by its parent.
    dead: bool,
}

impl Watch {
    /// Watches whom it may; a process that is named by its number has to be there.
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

    /// Looks after the process: its figures without the dear ones, and what has changed.
    pub fn look(&mut self) -> (Option<ProcessFigures>, Vec<Change>) {
        let mut changes = Vec::new();
        if let Some(identity) = self.now {
            if let Some(figures) = figures_of(identity) {
                return (Some(figures), changes);
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
        (figures_of(identity), changes)
    }

    /// Adds to `figures` what a walk over the process's page tables tells.
    pub fn look_closely(figures: &mut ProcessFigures) {
        if let Ok(memory) = Memory::of(figures.pid) {
            figures.resident = memory.resident;
            figures.proportional = Some(memory.proportional);
            figures.private = Some(memory.private);
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

/// All processes of this name but our own.
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

/// Whether a process is meant by `name`: `comm` is the first 15 bytes of its program's name or what
/// it calls itself, and `command_line` has a zero behind each word.
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

fn stat_of(pid: u32) -> Option<Stat> {
    let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    (!stat.dead).then_some(stat)
}

/// The fields behind the command's name, which may hold anything but ends in the last parenthesis.
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

fn figures_of(identity: Identity) -> Option<ProcessFigures> {
    let pid = identity.pid;
    let stat = stat_of(pid).filter(|stat| stat.started == identity.started)?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Some(ProcessFigures {
        pid,
        resident: resident(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)?,
        proportional: None,
        private: None,
        user_seconds: stat.user_ticks as f64 / ticks,
        system_seconds: stat.system_ticks as f64 / ticks,
        threads: stat.threads,
    })
}

fn resident(status: &str) -> Option<u64> {
    let rest = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = rest.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn names_are_programs_and_lines_are_beginnings() {
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
            "encke flood",
            "/opt/bin/encke",
        ] {
            assert!(!is_called(name, "encke-main", line), "{name}");
        }
        assert!(is_called("kworker", "kworker", ""));
    }

    #[test]
    fn the_command_may_be_called_anything() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20";
        let stat = parse_stat(stat).unwrap();
        assert_eq!((stat.user_ticks, stat.system_ticks), (11, 12));
        assert_eq!((stat.threads, stat.started, stat.dead), (17, 19, false));
        assert!(parse_stat("7 (a) Z 1 2").is_none());
    }

    /// A child that waits for the end of its input.
    fn child() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    #[test]
    fn an_end_is_told_once_and_a_number_is_not_looked_for_again() {
        let mut child = child();
        let mut watch = Watch::start(ProcessSelector::Pid(child.id())).unwrap();
        let (figures, changes) = watch.look();
        assert!(figures.is_some_and(|figures| figures.threads == 1));
        let others = Vec::new();
        let pid = child.id();
        assert_eq!(changes, [Change::Found { pid, others }]);
        assert_eq!(watch.look().1, []);
        child.kill().unwrap();
        // Ended but not waited for: it is dead all the same.
        let dead = || stat_of(pid).is_none();
        while !dead() {
            std::thread::yield_now();
        }
        assert_eq!(watch.look(), (None, vec![Change::Ended(pid)]));
        assert_eq!(watch.look(), (None, Vec::new()));
        child.wait().unwrap();
        let error = Watch::start(ProcessSelector::Pid(pid))
            .unwrap_err()
            .to_string();
        assert!(error.contains("there is no process"), "{error}");
    }

    #[test]
    fn the_next_of_a_name_is_watched_when_the_first_ends() {
        // Nobody else's cat is called by this line.
        let line = format!("cat - /dev/null/{}", std::process::id());
        let start = || {
            let mut command = Command::new("cat");
            command.args(line.split(' ').skip(1));
            command.stdin(Stdio::piped()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let mut watch = Watch::start(ProcessSelector::Name(line.clone())).unwrap();
        assert_eq!(watch.look(), (None, Vec::new()));
        let mut first = start();
        let found = |watch: &mut Watch| loop {
            // Between fork and exec it is not called so yet.
            if let (Some(figures), changes) = watch.look() {
                break (figures.pid, changes);
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
    fn a_stranger_with_the_same_number_is_a_stranger() {
        let identity = identity_of(std::process::id()).unwrap();
        assert!(figures_of(identity).is_some());
        let started = identity.started + 1;
        assert!(
            figures_of(Identity {
                started,
                ..identity
            })
            .is_none()
        );
    }
}
