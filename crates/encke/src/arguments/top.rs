//! `encke top`.

use std::time::Duration;

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::units;

pub(super) const HELP: &str = "\
Shows for each worker of a running server: busy time by stage, polls and the number of events of
each, system calls, connections, bytes, and what waits in its mailbox and for full sockets; and the
slowest readers. Of a cluster it shows each node, with its state, lag and load, and their sums.
`encke-proxy tcp` and `encke-proxy hello`, if started with --control, show those of these values
that they have; a proxy also shows its backends, hello its requests. Rates are over the time
between two readings of /v1/stats. If the program goes away, the command waits for it.

On a terminal the screen is redrawn: q quits, the arrows and PgUp and PgDn scroll the workers, Space
pauses, + and - change the interval, and ? shows these keys. Elsewhere one table follows another
until Ctrl-C.

Examples:
  encke top
  encke top --control http://127.0.0.1:9001        # of `encke-proxy tcp --control 127.0.0.1:9001`
  encke top --every 5s --control http://10.0.0.7:8001 --control-token-file token
  encke top --once --json";

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    pub(crate) every: Duration,
    /// Take two readings, print what happened in between, and exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Parses the time between samples. The server reports its time in milliseconds.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = units::duration(text)?;
    if pause < Duration::from_millis(100) {
        return Err("readings cannot be closer than 100ms".to_owned());
    }
    Ok(pause)
}
