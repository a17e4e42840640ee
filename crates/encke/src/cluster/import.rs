//! `encke cluster import`: begins a cluster with the graph of a data directory.

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::cluster::{Found, Imported, Importer, Progress};
use clap::Args;
use cli::arguments::Report;
use cli::epoch;
use cli::failure::Failure;
use cli::progress::ProgressBar;
use cli::units::{human_count, human_size};
use graph::{Check, Directory, Snapshot};
use serde_json::json;

use crate::config::{self, Flags, ImportFlags, Sources};
use crate::store;

pub(super) const HELP: &str = "\
Stop the server that uses the data directory first. The directory is only read; a copy of the graph
needs room in it for a moment. The cluster must be new: its log may have no entries. If the command
breaks off, run it again; no node starts before it is done. Then start the nodes, each with an empty
data directory. The settings of the cluster are those of `encke serve`, and may come from its
configuration file or its environment variables.

Examples:
  encke cluster import --data encke-data --cluster nats://10.0.0.1,10.0.0.2,10.0.0.3
  encke cluster import --config encke.toml --check";

/// `encke cluster import`: settings of the cluster come from the table of the configuration.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(flatten)]
    settings: Flags<ImportFlags>,
    /// Configuration file of `encke serve`, in TOML
    #[arg(long, value_name = "FILE", env = "ENCKE_CONFIG")]
    config: Option<PathBuf>,
    /// Check the graph, the engine and its log, and exit
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    report: Report,
}

/// Imports a graph. With `--check`, only checks whether that is possible.
pub(super) fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    let flags = arguments.settings.matches.clone();
    let sources = Sources::new(arguments.config.clone(), env::vars_os(), flags);
    let (layers, problems) = sources.read();
    let config = config::resolve_import(&layers, problems).map_err(Failure::Misused)?;
    let start = Instant::now();
    if !config.data.is_dir() {
        return Err(Failure::failed(format_args!(
            "there is no data directory {}; set --data to the directory that `encke serve` used",
            config.data.display()
        )));
    }
    let directory = Directory::lock(&config.data).map_err(Failure::failed)?;
    let graph = directory.snapshot().map_err(Failure::failed)?;
    let importer = Importer::connect(config.cluster.clone()).map_err(Failure::failed)?;
    let found = importer.look().map_err(Failure::failed)?;
    let check = checked(&graph, &directory)?;
    let name = config.cluster.cluster.as_str();
    if arguments.check {
        return report_check(arguments, name, found, &check);
    }
    let bars = Arc::new(Bars::default());
    let shown = Arc::clone(&bars);
    let tell: Arc<dyn Fn(Progress) + Send + Sync> = Arc::new(move |progress| shown.tell(progress));
    let imported = importer.import(&directory, graph, &epoch::of_this_run(), &tell);
    bars.end();
    let imported = imported.map_err(Failure::failed)?;
    let seconds = start.elapsed().as_secs_f64();
    report(arguments, name, &imported, &check, seconds)?;
    if has_erlang_ids(&directory)? {
        eprintln!(
            "the original terms of ids for Erlang nodes are not part of the graph: copy the file \
             {} from {} to the data directory of each node that has --erlang-name",
            graph::ID_TERMS_FILE,
            config.data.display()
        );
    }
    Ok(())
}

/// Checks that the graph is consistent.
fn checked(graph: &Snapshot, directory: &Directory) -> Result<Check, Failure> {
    let check = graph.check().map_err(Failure::failed)?;
    match check.is_sound() {
        true => Ok(check),
        false => Err(Failure::failed(store::faults(
            &check,
            &directory.file().display().to_string(),
        ))),
    }
}

fn has_erlang_ids(directory: &Directory) -> Result<bool, Failure> {
    let file = directory.open_id_terms();
    Ok(file.map_err(Failure::failed)?.is_some())
}

fn report_check(
    arguments: &ImportArguments,
    cluster: &str,
    found: Found,
    check: &Check,
) -> Result<(), Failure> {
    let (word, log) = match found {
        Found::NoLog => ("none", "has no log yet"),
        Found::NoGraph => ("empty", "has a log without entries"),
        Found::Graph => (
            "imported",
            "has a log without entries, and a graph that was imported; an import compares it with \
             this one",
        ),
    };
    let report = json!({
        "cluster": cluster, "log": word, "edges": check.edges, "names": check.names,
    });
    arguments.report.print(&report, || {
        format!(
            "the graph is consistent: {} subscriptions\nthe engine answers, and the cluster \
             {cluster} {log}",
            human_count(check.edges),
        )
    })
}

fn report(
    arguments: &ImportArguments,
    cluster: &str,
    imported: &Imported,
    check: &Check,
    seconds: f64,
) -> Result<(), Failure> {
    let report = json!({
        "cluster": cluster, "epoch": imported.epoch, "snapshot": imported.snapshot,
        "edges": check.edges, "bytes": imported.bytes, "new": imported.is_new,
        "seconds": seconds,
    });
    let edges = human_count(check.edges);
    arguments.report.print(&report, || match imported.is_new {
        false => format!(
            "the cluster {cluster} begins with this graph already: {edges} subscriptions, compared \
             one by one; start its nodes, each with an empty data directory"
        ),
        true => format!(
            "the cluster {cluster} begins with this graph: {edges} subscriptions in {}, read back \
             and compared, in {seconds:.1} s; start its nodes, each with an empty data directory",
            human_size(imported.bytes)
        ),
    })
}

/// Progress bars of the parts of an import.
#[derive(Default)]
struct Bars {
    sent: OnceLock<ProgressBar>,
    checked: OnceLock<ProgressBar>,
}

impl Bars {
    fn tell(&self, progress: Progress) {
        let (bar, done, all, what) = match progress {
            Progress::Sent(done, all) => (&self.sent, done, all, "bytes sent"),
            Progress::Checked(done, all) => (&self.checked, done, all, "bytes read back"),
        };
        let bar = bar.get_or_init(|| ProgressBar::of(all, what));
        bar.reach(done);
        if done >= all {
            bar.end();
        }
    }

    fn end(&self) {
        for bar in [&self.sent, &self.checked] {
            if let Some(bar) = bar.get() {
                bar.end();
            }
        }
    }
}
