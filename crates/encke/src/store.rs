//! `encke graph`: checks, counts, exports, compacts and backs up the graph of a data directory.

mod backup;
mod opened;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use cli::arguments::{DataArguments, PlaceArguments, Report};
use cli::failure::Failure;
use cli::output;
use cli::progress::ProgressBar;
use cli::units::{human_count, human_size};
use graph::{Check, ExportError, ListFormat, Snapshot, Statistics};
use serde_json::json;

use opened::Opened;

pub(crate) const HELP: &str = "\
The graph is the set of all subscriptions. Only one process can use a data directory: stop the
server first, or use --online, which works on a copy that the running server gives. The copy is made
in the directory for temporary files (TMPDIR) and removed at the end.

Examples:
  encke graph stats --online
  encke graph check --data encke-data
  encke graph export | sort | uniq -d
  encke graph backup monday.redb --online";

const CHECK_HELP: &str = "\
The exit code is 0 if the graph is consistent, and 1 if it is not.

Examples:
  encke graph check --data encke-data
  encke graph check --online";

const EXPORT_HELP: &str = "\
The lines are sorted: integers first, in ascending order, then text by its bytes. So two exports of
the same graph are equal. `encke-lab friends load` and POST /v1/subscriptions read these lists. With
--json the lines are {\"subscriber\":…,\"subject\":…}, which allow ids with spaces.

Examples:
  encke graph export -o edges.txt
  encke graph export --json | gzip > edges.ndjson.gz";

#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    pub(crate) verb: StoreVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreVerb {
    /// Compare the two stored directions of all edges, and the names with the edges
    #[command(after_help = CHECK_HELP)]
    Check(ReadArguments),
    /// Count edges, ids and blocks
    #[command(after_help = "Example:\n  encke graph stats --json")]
    Stats(ReadArguments),
    /// Write all edges, sorted, as lines `subscriber subject`
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArguments),
    /// Rewrite the file without the space that changes have left unused
    #[command(after_help = "Example:\n  encke graph compact --data encke-data")]
    Compact(CompactArguments),
    /// Copy the graph to a file, from a running server with --online
    #[command(after_help = backup::HELP)]
    Backup(backup::BackupArguments),
}

#[derive(Debug, Args)]
pub(crate) struct CompactArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// File for the list; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Runs a subcommand.
pub(crate) fn run(arguments: &StoreArguments) -> Result<(), Failure> {
    match &arguments.verb {
        StoreVerb::Check(arguments) => check(arguments),
        StoreVerb::Stats(arguments) => stats(arguments),
        StoreVerb::Export(arguments) => export(arguments),
        StoreVerb::Compact(arguments) => compact(arguments),
        StoreVerb::Backup(arguments) => backup::run(arguments),
    }
}

fn check(arguments: &ReadArguments) -> Result<(), Failure> {
    let opened = Opened::of(&arguments.place)?;
    let directory = opened.directory();
    let snapshot = directory.snapshot().map_err(Failure::failed)?;
    let check = snapshot.check().map_err(Failure::failed)?;
    if arguments.report.json {
        let _ = output::json(&json!({
            "sound": check.is_sound(),
            "edges": check.edges,
            "names": check.names,
            "faults": check.faults,
            "told": check.told,
        }))?;
    } else if check.is_sound() {
        let _ = output::line(format_args!(
            "{} edges are equal in both directions, and {} names match them",
            human_count(check.edges),
            human_count(check.names)
        ))?;
    }
    if check.is_sound() {
        return Ok(());
    }
    Err(Failure::failed(faults(&check, opened.name())))
}

pub(crate) fn faults(check: &Check, name: &str) -> String {
    let mut text = String::new();
    for sentence in &check.told {
        text.push_str(sentence);
        text.push('\n');
    }
    let more = check.faults - check.told.len() as u64;
    if more > 0 {
        text.push_str(&format!("and {} more\n", human_count(more)));
    }
    text.push_str(&format!(
        "{name} is inconsistent in {} places: restore a backup, or export the graph and load it \
         into a new directory",
        human_count(check.faults)
    ));
    text
}

fn stats(arguments: &ReadArguments) -> Result<(), Failure> {
    let opened = Opened::of(&arguments.place)?;
    let directory = opened.directory();
    let snapshot = directory.snapshot().map_err(Failure::failed)?;
    let statistics = snapshot.statistics().map_err(Failure::failed)?;
    // Closing the file may change its length, which is read next.
    drop(snapshot);
    let file = directory.file();
    let bytes = std::fs::metadata(&file).map_err(Failure::failed)?.len();
    let text = || as_text(&statistics, bytes, opened.name());
    arguments.report.print(&as_json(&statistics, bytes), text)
}

fn as_json(statistics: &Statistics, bytes: u64) -> serde_json::Value {
    let most = |most: &Option<(graph::Id, u64)>| {
        most.as_ref()
            .map(|(id, count)| json!({ "id": id, "count": count }))
    };
    json!({
        "edges": statistics.edges,
        "ids": statistics.ids,
        "names": statistics.names,
        "journalled": statistics.journalled,
        "blocks": statistics.blocks,
        "file_bytes": bytes,
        "most_subscribers": most(&statistics.most_subscribers),
        "most_subscriptions": most(&statistics.most_subscriptions),
    })
}

fn as_text(statistics: &Statistics, bytes: u64, name: &str) -> String {
    let most = |most: &Option<(graph::Id, u64)>| match most {
        Some((id, count)) => format!("{} ({id})", human_count(*count)),
        None => "none".to_owned(),
    };
    let each = match statistics.edges {
        0 => String::new(),
        edges => format!(", {:.2} bytes an edge", bytes as f64 / edges as f64),
    };
    format!(
        "file                {name} ({}{each})\n\
         edges               {}\n\
         ids                 {}, {} of them by name\n\
         most subscribers    {}\n\
         most subscriptions  {}\n\
         blocks              {}, and {} edges in the journal",
        human_size(bytes),
        human_count(statistics.edges),
        human_count(statistics.ids),
        human_count(statistics.names),
        most(&statistics.most_subscribers),
        most(&statistics.most_subscriptions),
        human_count(statistics.blocks),
        human_count(statistics.journalled),
    )
}

fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let opened = Opened::of(&arguments.place)?;
    let snapshot = opened.directory().snapshot().map_err(Failure::failed)?;
    let format = match arguments.report.json {
        true => ListFormat::Json,
        false => ListFormat::Words,
    };
    let written = if arguments.output == Path::new("-") {
        write(&snapshot, format, io::stdout().lock())
    } else {
        let path = arguments.output.display();
        let file = File::create(&arguments.output)
            .map_err(|error| Failure::failed(format_args!("{path} cannot be written: {error}")))?;
        write(&snapshot, format, file)
    };
    match written {
        Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(ExportError::NotAWord(id)) => Err(Failure::failed(format_args!(
            "{}; use --json",
            ExportError::NotAWord(id)
        ))),
        other => other.map_err(Failure::failed),
    }
}

fn write(snapshot: &Snapshot, format: ListFormat, out: impl Write) -> Result<(), ExportError> {
    let edges = snapshot.statistics().map_err(ExportError::Graph)?.edges;
    let progress = ProgressBar::of(edges, "edges");
    let written = snapshot.export(
        format,
        &mut BufWriter::with_capacity(1 << 16, out),
        |edges| {
            progress.reach(edges);
        },
    );
    progress.end();
    written.map(drop)
}

fn compact(arguments: &CompactArguments) -> Result<(), Failure> {
    let directory = opened::existing(&arguments.data)?;
    let file = directory.file();
    let size = || std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
    let before = size();
    directory.compact().map_err(Failure::failed)?;
    let after = size();
    let report = json!({ "bytes_before": before, "bytes_after": after });
    arguments.report.print(&report, || {
        let (before, after) = (human_size(before), human_size(after));
        format!("{} had {before} and now has {after}", file.display())
    })
}
