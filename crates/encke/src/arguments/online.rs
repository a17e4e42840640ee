//! Arguments of `encke online`.

use clap::Args;
use cli::arguments::{ControlArguments, Report};

pub(crate) const HELP: &str = "\
An id is online while it has a session on the server, or on any node of its cluster, and for a
while after its last one.
The server must run with --presence, or --demo.

Examples:
  encke online alice bob
  encke online alice --json";

#[derive(Debug, Args)]
pub(crate) struct OnlineArguments {
    /// Ids to ask about
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}
