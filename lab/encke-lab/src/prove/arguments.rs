//! `encke-lab prove`.

use std::path::PathBuf;

use bench::prove::Options;
use clap::Args;
use cli::arguments::Report;

pub(crate) const HELP: &str = "\
Examines the machine (as root, also sets what is needed of the kernel, and restores it at the end),
starts a server and its users on free loopback ports, publishes events to random users, records all
the while, and writes a self-contained page of HTML with figures and plots.

A million users take 9 GiB, most of it in the kernel, and some minutes. With --degree a graph of
friends is generated and loaded, and an event goes to all friends of its subject: at the same rate
of events there are that many times more deliveries.

--nodes needs nats-server in the PATH, or its place in the environment variable NATS_SERVER.

Exit codes: 0 all events arrived as promised, 1 some did not or the experiment failed, 2 invalid
arguments. An interrupt ends the run early; the page shows what was found until then.

Examples:
  encke-lab prove --connections 10000 --duration 10s
  encke-lab prove --connections 1000000 -o million.html
  encke-lab prove --connections 10000 --duration 20s --restart
  encke-lab prove --connections 60000 --nodes 3 -o cluster.html
  encke-lab prove --connections 100000 --degree 5 --rate 2000 --json";

#[derive(Debug, Args)]
pub(crate) struct ProveArguments {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Program of the server [default: the `encke` beside this program, or that in the PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// HTML file to write
    #[arg(short, long, value_name = "FILE", default_value = "prove.html")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) report: Report,
    /// Be the users of these addresses: how the command starts itself a second time
    #[arg(long, value_name = "URL", hide = true)]
    pub(crate) clients_of: Vec<String>,
}
