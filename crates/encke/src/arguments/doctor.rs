//! `encke doctor`.

use clap::Args;
use cli::arguments::Report;
use cli::values::WORKERS;

pub(super) const HELP: &str = "\
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
    pub(crate) report: Report,
}
