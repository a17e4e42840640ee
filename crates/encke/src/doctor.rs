//! `encke doctor`: reports what keeps this machine from holding a number of connections, and how to
//! change it.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;

use clap::Args;
use cli::arguments;
use cli::failure::Failure;
use cli::output;
use cli::values::WORKERS;
use machine::doctor::apply::{Change, apply};
use machine::doctor::readings::Readings;
use machine::doctor::{Diagnosis, Finding, Severity, Workload};
use machine::humanize;
use serde::Serialize;

pub(crate) const HELP: &str = "\
For each limit on connections the report says what was found, what is needed, why, and what to do.
Nothing is changed without --apply. It needs root, prints how to undo the changes, and lasts until
the machine restarts. To make the changes permanent, write a file for sysctl:

  encke doctor --sysctl-conf > /etc/sysctl.d/90-encke.conf

Exit codes: 0 the machine can hold so many connections, 1 it cannot, 2 invalid arguments.

Examples:
  encke doctor
  encke doctor --connections 100000 --workers 4
  sudo encke doctor --workers 64 --private-fds --apply";

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Connections that one server has to hold
    #[arg(
        short = 'c',
        short_alias = 'n',
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000)
    )]
    pub(crate) connections: u64,
    /// Workers of the server [default: one per core]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u16).range(WORKERS))]
    pub(crate) workers: Option<u16>,
    /// The server gives each worker its own descriptor table
    #[arg(long)]
    pub(crate) private_fds: bool,
    /// The clients run on this machine too, as in a test
    #[arg(long)]
    pub(crate) both_ends: bool,
    /// Change the settings, and print how to undo the changes
    #[arg(long, conflicts_with = "sysctl_conf")]
    pub(crate) apply: bool,
    /// Print a file for /etc/sysctl.d with the settings to change
    #[arg(long, conflicts_with = "json")]
    pub(crate) sysctl_conf: bool,
    #[command(flatten)]
    pub(crate) report: arguments::Report,
}

/// Examines the machine and prints a report. With `--apply`, first changes settings.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<(), Failure> {
    let cores = || thread::available_parallelism().map_or(1, usize::from) as u64;
    let wanted = Workload {
        connections: arguments.connections,
        workers: arguments.workers.map_or_else(cores, u64::from),
        private_fds: arguments.private_fds,
        both_ends: arguments.both_ends,
    };
    let mut diagnosis = Diagnosis::of(&Readings::of_machine(), wanted);
    if arguments.sysctl_conf {
        let _ = output::line(diagnosis.sysctl_conf().trim_end())?;
        return verdict(&diagnosis);
    }
    let mut changes = Vec::new();
    if arguments.apply {
        let applied = apply(diagnosis.changes(), Path::new("/"));
        changes = applied.made;
        if let Some(why) = applied.refused {
            return Err(apply_failed(&why, &changes));
        }
        diagnosis = Diagnosis::of(&Readings::of_machine(), wanted);
    }
    let report = Report {
        diagnosis: &diagnosis,
        changes: &changes,
    };
    arguments.report.print(&report, || {
        let text = text(&diagnosis, &changes, arguments.apply);
        text.trim_end().to_owned()
    })?;
    verdict(&diagnosis)
}

/// Returns an error that says which change failed, and how to undo those made before it.
fn apply_failed(why: &machine::failure::Failure, changes: &[Change]) -> Failure {
    let mut text = why.to_string();
    for Change { command, undo, .. } in changes {
        text.push_str(&format!("\nalready applied: {command}; to undo it: {undo}"));
    }
    Failure::failed(text)
}

/// The report as JSON (`--json`).
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
    changes: &'a [Change],
}

/// Returns an error, for exit code 1, if a finding keeps the machine from holding the connections.
fn verdict(diagnosis: &Diagnosis) -> Result<(), Failure> {
    let names: Vec<&str> = diagnosis
        .findings
        .iter()
        .filter(|finding| finding.level == Severity::Blocker)
        .map(|finding| finding.name)
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format_args!(
        "{} connections do not fit: {}",
        humanize::count(diagnosis.wanted.connections),
        names.join(", ")
    )))
}

fn text(diagnosis: &Diagnosis, changes: &[Change], applied: bool) -> String {
    let connections = humanize::count(diagnosis.wanted.connections);
    let mut text = match diagnosis.count(Severity::Blocker) {
        0 => format!("{connections} connections: nothing stops them.\n"),
        1 => format!("{connections} connections: one thing stops them.\n"),
        count => format!("{connections} connections: {count} things stop them.\n"),
    };
    let (well, others): (Vec<_>, Vec<_>) = diagnosis
        .findings
        .iter()
        .partition(|finding| finding.level == Severity::Ok);
    for finding in others {
        describe(finding, &mut text);
    }
    text.push_str("\nwell\n");
    for Finding { name, found, .. } in well {
        line(&mut text, format_args!("  {name:18}  {found}"));
    }
    if applied && changes.is_empty() {
        text.push_str("\nThere was nothing that could be applied.\n");
    } else if !changes.is_empty() {
        text.push_str("\nApplied, until the machine restarts:\n");
        for change in changes {
            line(&mut text, format_args!("  {}", change.command));
        }
        text.push_str("To undo it:\n");
        for change in changes.iter().rev() {
            line(&mut text, format_args!("  {}", change.undo));
        }
    } else if diagnosis.changes().next().is_some() {
        text.push_str("\nTo do what `sysctl` can do: encke doctor --apply, as root.\n");
    }
    text
}

/// Appends a finding that needs a change, with its reason and its remedies.
fn describe(finding: &Finding, text: &mut String) {
    let Finding {
        name,
        level,
        found,
        needed,
        why,
        remedies,
    } = finding;
    let word = if *level == Severity::Blocker {
        "STOPS "
    } else {
        "better"
    };
    line(text, format_args!("\n{word}  {name}"));
    line(text, format_args!("  found   {found}"));
    line(text, format_args!("  needed  {needed}"));
    line(text, format_args!("  why     {why}"));
    for (number, remedy) in remedies.iter().enumerate() {
        let word = if number == 0 { "do" } else { "or" };
        line(text, format_args!("  {word:6}  {}", remedy.command()));
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes any text");
}
