//! `encke cluster import`: begins a cluster with the graph of a data directory.

use std::cell::OnceCell;
use std::env;
use std::sync::Arc;
use std::time::Instant;

use ::cluster::{Found, Imported, Importer, Progress};
use cli::epoch;
use cli::failure::Failure;
use cli::progress::ProgressBar;
use cli::units::{human_count, human_size};
use graph::{Check, Directory, Snapshot};
use parking_lot::Mutex;
use serde_json::json;

use crate::arguments::ImportArguments;
use crate::config::{self, Sources};
use crate::store;

/// Imports a graph. With `--check`, only checks whether that is possible.
pub(super) fn run(arguments: &ImportArguments) -> Result<(), Failure> {
    let own = &arguments.own;
    let flags = arguments.settings.clone();
    let (layers, problems) = Sources::new(own.config.clone(), env::vars_os(), flags).read();
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
    if own.check {
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
    arguments.own.report.print(&report, || {
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
    arguments.own.report.print(&report, || match imported.is_new {
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
    sent: Mutex<OnceCell<ProgressBar>>,
    checked: Mutex<OnceCell<ProgressBar>>,
}

impl Bars {
    fn tell(&self, progress: Progress) {
        let (bar, done, all, what) = match progress {
            Progress::Sent(done, all) => (&self.sent, done, all, "bytes sent"),
            Progress::Checked(done, all) => (&self.checked, done, all, "bytes read back"),
        };
        let bar = bar.lock();
        let bar = bar.get_or_init(|| ProgressBar::of(all, what));
        bar.reach(done);
        if done >= all {
            bar.end();
        }
    }

    fn end(&self) {
        for bar in [&self.sent, &self.checked] {
            if let Some(bar) = bar.lock().get() {
                bar.end();
            }
        }
    }
}
