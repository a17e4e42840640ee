//! `encke-lab prove`: runs the whole experiment and writes its report.

/// Arguments of the command.
pub(crate) mod arguments;

use std::fs;

use bench::prove::proof::Proof;
use bench::prove::{self, Progress, clients, page};
use cli::failure::Failure;
use cli::output;
use cli::progress::ProgressBar;
use machine::interrupt::Interrupt;

use crate::output_file::unwritable;
use crate::server_program;
use arguments::ProveArguments;

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
    let _ = if arguments.report.json {
        output::json(&proof.json())?
    } else {
        output::line(format_args!("the report is {}", arguments.output.display()))?
    };
    let failures = proof.failures();
    if failures.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(failures.join("; ")))
}
