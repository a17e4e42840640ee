//! `encke top`.

use std::time::Duration;

use clap::Args;

use super::{ControlArguments, Report};
use crate::units;

pub(super) const HELP: &str = "\
For each worker of a running server: how busy it is and with what, polls and how many events each
returned, system calls, connections, bytes, what waits in its mailbox and in full sockets; and the
slowest readers. Of `encke proxy` and `encke hello`, which can be looked at when they are started
with --control, what they have of it; of a proxy each backend, of hello requests. Rates are over the
time between two readings of /v1/stats; a program that goes away is waited for.

On a terminal the picture is drawn anew each time: q quits, the arrows and PgUp and PgDn scroll the
workers, Space pauses, + and - change the interval, and ? shows these keys. Elsewhere the tables
follow one another until Ctrl-C.

Examples:
  encke top
  encke top --control http://127.0.0.1:9001        # of `encke proxy --control 127.0.0.1:9001`
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

/// A pause between readings: the server's clock is told in milliseconds.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = units::duration(text)?;
    if pause < Duration::from_millis(100) {
        return Err("readings cannot be closer than 100ms".to_owned());
    }
    Ok(pause)
}
