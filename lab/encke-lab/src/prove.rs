//! `encke-lab prove`: runs the whole experiment and writes its report.

use std::fs;
use std::path::PathBuf;

use bench::prove::proof::Proof;
use bench::prove::{self, Options, Progress, clients, page};
use clap::Args;
use cli::arguments::Report;
use cli::failure::Failure;
use cli::progress::ProgressBar;
use machine::interrupt::Interrupt;

use crate::output_file::unwritable;
use crate::server_program;

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
    options: Options,
    /// Program of the server [default: the `encke` beside this program, or that in the PATH]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// HTML file to write
    #[arg(short, long, value_name = "FILE", default_value = "prove.html")]
    output: PathBuf,
    #[command(flatten)]
    report: Report,
    /// Be the users of these addresses: how the command starts itself a second time
    #[arg(long, value_name = "URL", hide = true)]
    clients_of: Vec<String>,
}

/// Runs the experiment, or, in a child process, the users of one.
pub(crate) fn run(arguments: &ProveArguments) -> Result<(), Failure> {
    let options = &arguments.options;
    if !arguments.clients_of.is_empty() {
        return Ok(clients::obey(&arguments.clients_of, options)?);
    }
    // Checked first: a report that cannot be written would waste minutes of measurement.
    fs::write(&arguments.output, "").map_err(|error| unwritable(&arguments.output, &error))?;
    let interrupt = Interrupt::catch_with_cleanup(bench::child::clean_up)?;
    let program = server_program::find(arguments.server.as_deref());
    let bar = ProgressBar::of(options.connections.into(), "users");
    let proof = prove::run(&program, options, &interrupt, &mut |news| tell(&bar, &news));
    bar.end();
    let proof = proof?;
    let html = page::html(&proof)?;
    fs::write(&arguments.output, html).map_err(|error| unwritable(&arguments.output, &error))?;
    conclude(&proof, arguments)
}

fn tell(bar: &ProgressBar, news: &Progress) {
    match news {
        Progress::Said(sentence) => bar.say(sentence),
        Progress::Opening(done, all) => {
            bar.length(*all);
            bar.reach(*done);
        }
        Progress::Driving(done, all) => {
            bar.length(all.as_secs());
            bar.reach(done.as_secs());
        }
    }
}

fn conclude(proof: &Proof, arguments: &ProveArguments) -> Result<(), Failure> {
    let text = || format!("the report is {}", arguments.output.display());
    arguments.report.print(&proof.json(), text)?;
    let failures = proof.failures();
    if failures.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(failures.join("; ")))
}
