//! `encke-lab record`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cli::arguments::Report;
use cli::units;

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
    pub(crate) pid: Option<u32>,
    /// Name of the program to record, or the beginning of its command line; waits until there is
    /// one
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Local port whose established connections are counted
    #[arg(long, default_value_t = 8000)]
    pub(crate) port: u16,
    /// Time between two rows
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = pause)]
    pub(crate) every: Duration,
    /// Time from the first row to the last [default: until interrupted]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) duration: Option<Duration>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) report: Report,
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
