//! Preparation of the machine: kernel settings are changed for the experiment and restored
//! afterwards.

use std::io::{BufRead, BufReader, Read};

use super::options::{Options, Progress};
use crate::body::Lines;
use crate::kernel_settings::ChangedSettings;
use machine::doctor::readings::Readings;
use machine::doctor::{Diagnosis, Severity, Workload, capacity};
use machine::failure::{Failure, Outcome};
use machine::host;

/// Machine that is ready for the experiment. Dropping it restores the settings.
#[derive(Debug)]
pub(super) struct PreparedMachine {
    pub(super) wanted: Workload,
    /// Advice of the doctor, as sentences.
    pub(super) remarks: Vec<String>,
    settings: ChangedSettings,
}

impl PreparedMachine {
    /// Checks the machine, and changes kernel settings if run as root.
    pub(super) fn make(options: &Options, tell: &mut dyn FnMut(Progress)) -> Outcome<Self> {
        let _ = host::raise_descriptor_limit();
        let readings = Readings::of_machine();
        let wanted = wanted(options, &readings)?;
        let (settings, refused) = ChangedSettings::make(&Diagnosis::of(&readings, wanted));
        if let Some(why) = refused {
            tell(Progress::Said(format!(
                "the other settings were not changed: {why}"
            )));
        }
        for command in settings.commands() {
            tell(Progress::Said(format!("set for the experiment: {command}")));
        }
        let diagnosis = Diagnosis::of(&Readings::of_machine(), wanted);
        let ready = Self {
            wanted,
            remarks: sentences(&diagnosis, Severity::Advice),
            settings,
        };
        if diagnosis.well {
            return Ok(ready);
        }
        // Dropping `ready` restores the settings.
        Err(Failure::new(format!(
            "{} users and their server do not fit on this machine: {}",
            options.connections,
            sentences(&diagnosis, Severity::Blocker).join("; ")
        )))
    }

    /// Returns the arguments for workers and descriptor tables of the server.
    pub(super) fn serve_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--workers".to_owned(), self.wanted.workers.to_string()];
        if self.wanted.private_fds {
            arguments.push("--private-fds".to_owned());
        }
        arguments
    }

    /// Restores the settings. Returns the commands that had changed them.
    pub(super) fn restore(self) -> Vec<String> {
        self.settings.commands()
    }
}

fn sentences(diagnosis: &Diagnosis, level: Severity) -> Vec<String> {
    let findings = diagnosis.findings.iter();
    let findings = findings.filter(|finding| finding.level == level);
    findings
        .map(|finding| {
            let remedy = finding.remedies.first().map(|remedy| remedy.command());
            format!(
                "{}: found {}, needs {} ({})",
                finding.name,
                finding.found,
                finding.needed,
                remedy.unwrap_or_default()
            )
        })
        .collect()
}

/// Plans one descriptor table for all workers if it is large enough, else one for each of enough
/// workers.
fn wanted(options: &Options, readings: &Readings) -> Outcome<Workload> {
    let connections = u64::from(options.connections);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let limit = readings.descriptors_hard;
    let workers = options.workers.map_or(cores, u64::from);
    let private_fds = capacity::descriptors(connections, workers, false) > limit;
    let least = match capacity::workers(connections, limit) {
        Some(least) if private_fds => least,
        None if private_fds => {
            return Err(Failure::new(format!(
                "{limit} descriptors a table are too few for {connections} users with any number \
                 of workers: raise the limit (ulimit -Hn)"
            )));
        }
        _ => 1,
    };
    Ok(Workload {
        connections,
        workers: workers.max(least),
        private_fds,
        both_ends: true,
    })
}

/// Turns each friendship `a b` into two subscriptions, as friendship is mutual.
pub(super) fn both_ways(list: impl Read) -> impl Read {
    let lines = BufReader::new(list).lines().map_while(Result::ok);
    Lines::new(lines.map(|line| match line.split_once(' ') {
        Some((one, other)) => format!("{one} {other}\n{other} {one}\n"),
        None => String::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn options(connections: u32) -> Options {
        Options {
            connections,
            rate: 1.0,
            duration: Duration::ZERO,
            degree: None,
            seed: 1,
            restart: false,
            nodes: None,
            workers: None,
        }
    }

    fn of(connections: u32, limit: u64) -> Outcome<Workload> {
        let readings = Readings {
            descriptors_hard: limit,
            ..Readings::default()
        };
        wanted(&options(connections), &readings)
    }

    #[test]
    fn private_tables_are_used_only_if_one_is_too_small() {
        assert!(!of(10_000, 20_000).unwrap().private_fds);
        let million = of(1_000_000, 20_000).unwrap();
        assert!(million.private_fds && million.workers > 50 && million.both_ends);
        let error = of(1_000_000, 100).unwrap_err().to_string();
        assert!(error.contains("ulimit -Hn"), "{error}");
    }

    #[test]
    fn friends_subscribe_to_each_other() {
        let mut text = String::new();
        both_ways(&b"2 1\n3 1\n"[..])
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "2 1\n1 2\n3 1\n1 3\n");
    }
}
