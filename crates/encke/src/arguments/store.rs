//! Arguments of `encke graph`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cli::arguments::{DataArguments, PlaceArguments, Report};

pub(super) const HELP: &str = "\
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

const BACKUP_HELP: &str = "\
The copy holds the graph after one commit. If Erlang nodes have added ids, their original terms are
copied to a second file, whose name ends with .erlang-ids. To restore a copy, stop the server and
put the files into its data directory as graph.redb and erlang-ids.

Examples:
  encke graph backup monday.redb --online
  encke graph backup monday.redb --data encke-data";

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
    #[command(after_help = BACKUP_HELP)]
    Backup(BackupArguments),
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

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// File for the copy; it must not exist yet
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}
