//! `encke-lab record`: records what a process and its machine use.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use cli::arguments::Report;
use cli::failure::Failure;
use cli::output;
use cli::units::{self, human_count, human_size};
use machine::interrupt::Interrupt;
use recorder::record::probe::Probe;
use recorder::record::process::ProcessSelector;
use recorder::record::row::Row;
use recorder::record::{self, Sampling, Summary, SystemClock};

pub(crate) const HELP: &str = "\
A row has the time, the memory, processor time and threads of the process, its connections, and the
kernel's memory for sockets; column names include units. Each row is flushed. Values that are
expensive to read (connections, and the proportional and private memory of a large process) are read
less often; their cells are empty in the rows between.

Without --duration the recording lasts until it is interrupted. When the process ends, the command
says so and continues with rows about the machine; with --name it then records the next process of
that name.

Examples:
  encke-lab record --name \"encke serve\" --port 8000 -o mem.csv
  encke-lab record --pid 4242 --every 1s --duration 10m -o mem.csv
  encke-lab plot mem.csv -o mem.svg";

#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// Id of the process to record
    #[arg(long, value_name = "P", conflicts_with = "name")]
    pid: Option<u32>,
    /// Name of the program to record, or the beginning of its command line; waits until there is
    /// one
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Local port whose established connections are counted
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Time between two rows
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = pause)]
    every: Duration,
    /// Time from the first row to the last [default: until interrupted]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    report: Report,
}

/// Records until the time is over or a signal comes.
pub(crate) fn run(arguments: &RecordArguments) -> Result<(), Failure> {
    if arguments.report.json && arguments.output.is_none() {
        return Err(Failure::misused(
            "--json reports on standard output, where the rows go as well: pass -o FILE",
        ));
    }
    let whom = match (&arguments.pid, &arguments.name) {
        (Some(pid), _) => Some(ProcessSelector::Pid(*pid)),
        (None, Some(name)) => Some(ProcessSelector::Name(name.clone())),
        (None, None) => None,
    };
    let interrupt = Interrupt::catch()?;
    let mut probe = Probe::start(whom, arguments.port)?;
    let mut out: Box<dyn Write> = match &arguments.output {
        Some(path) => Box::new(create(path, arguments.force)?),
        None => Box::new(io::stdout()),
    };
    // The name of the process, until there is one.
    let mut waiting_for = arguments.name.as_deref();
    let read = || {
        let row = probe.read();
        for change in probe.changes() {
            waiting_for = None;
            eprintln!("{change}");
        }
        if let Some(name) = waiting_for.take() {
            eprintln!("there is no process {name} yet; recording the machine until there is one");
        }
        row
    };
    let pace = Sampling {
        every: arguments.every,
        duration: arguments.duration,
    };
    let mut sleep = SystemClock::from_now(interrupt);
    let show = arguments.output.is_some() && io::IsTerminal::is_terminal(&io::stderr());
    let recorded = record::run(read, pace, &mut sleep, &mut out, |row| {
        if show {
            eprint!("\r\x1b[K{}", progress_line(row));
        }
    });
    if show {
        eprintln!();
    }
    match recorded {
        Ok(summary) => tell(&summary, arguments),
        // The reader has closed standard output, which is a success.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::failed(format_args!(
            "a row cannot be written: {error}"
        ))),
    }
}

fn create(path: &Path, force: bool) -> Result<File, Failure> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(force)
        .truncate(force)
        .create_new(!force);
    options.open(path).map_err(|error| {
        let path = path.display();
        Failure::failed(match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{path} exists already: pass another name, or --force to overwrite it")
            }
            _ => format!("{path} cannot be written: {error}"),
        })
    })
}

/// Returns a row as the text of the progress line.
fn progress_line(row: &Row) -> String {
    let seconds = row.elapsed.as_secs();
    let mut text = format!("{seconds} s");
    if let Some(process) = row.process {
        text.push_str(&format!(", resident {}", human_size(process.resident)));
    }
    if let Some(connections) = row.connections {
        text.push_str(&format!(", {} connections", human_count(connections)));
    }
    if let Some(slab) = row.machine.slab {
        text.push_str(&format!(", kernel objects {}", human_size(slab)));
    }
    text
}

fn tell(summary: &Summary, arguments: &RecordArguments) -> Result<(), Failure> {
    if arguments.report.json {
        return output::json(summary).map(drop);
    }
    let Some(path) = &arguments.output else {
        return Ok(());
    };
    let path = path.display();
    output::line(format_args!(
        "{} rows over {:.0} s in {path}; to see them: encke-lab plot {path} -o mem.svg",
        human_count(summary.rows),
        summary.seconds,
    ))
    .map(drop)
}

/// Parses the time between rows. The kernel counts processor time in ticks of 10 ms, so rows that
/// are much closer than 100 ms mean nothing.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = units::duration(text)?;
    if pause < Duration::from_millis(100) {
        return Err("rows cannot be closer than 100ms".to_owned());
    }
    Ok(pause)
}
