//! What `encke graph` can be told.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use graph::{Directory, OpenError};

use super::{ControlArguments, Report};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
The graph is who subscribes to whom. A server that runs has its data directory for itself: stop it
first, but for `encke graph backup --online`.

Examples:
  encke graph stats
  encke graph check --data /var/lib/encke
  encke graph export | sort | uniq -d
  encke graph backup monday.redb --online";

const CHECK_HELP: &str = "\
Exit code 0 when all agrees, 1 when it does not.

Example:
  encke graph check --data encke-data";

const EXPORT_HELP: &str = "\
Integers come first and ascend, then text by its bytes, so that lists of the same graph are the same
list. `encke friends load` and POST /v1/subscriptions read them.

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
    /// Hold both directions of all edges against each other, and names against edges
    #[command(after_help = CHECK_HELP)]
    Check(ReadArguments),
    /// Count what is in the graph
    #[command(after_help = "Example:\n  encke graph stats --json")]
    Stats(ReadArguments),
    /// Write all edges, sorted, `subscriber subject` a line
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArguments),
    /// Write the file anew, without the room that changes have left behind
    #[command(after_help = "Example:\n  encke graph compact --data encke-data")]
    Compact(ReadArguments),
    /// Copy the graph to a file, from a running server with --online
    #[command(after_help = BACKUP_HELP)]
    Backup(BackupArguments),
}

/// Where a graph is kept.
#[derive(Debug, Args)]
pub(crate) struct DataArguments {
    /// The data directory
    #[arg(
        long,
        value_name = "DIR",
        env = "ENCKE_DATA",
        default_value = "./encke-data"
    )]
    pub(crate) data: PathBuf,
}

/// Where a graph is reached: in its directory, or through the server that has it.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
    /// Go through the server that runs, over its control listener
    #[arg(long)]
    pub(crate) online: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    pub(crate) data: DataArguments,
    /// Where the list goes; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Write `{"subscriber":…,"subject":…}` a line, which holds ids with blanks too
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// The copy; nothing may be there yet
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

impl DataArguments {
    /// Takes the directory, which has to be there.
    pub(crate) fn existing(&self) -> Result<Directory, Failure> {
        self.check_there()?;
        Directory::lock(&self.data).map_err(Failure::failed)
    }

    fn check_there(&self) -> Result<(), Failure> {
        if self.data.is_dir() {
            return Ok(());
        }
        Err(Failure::failed(format_args!(
            "there is no data directory {}; give the one of `encke serve` with --data",
            self.data.display()
        )))
    }
}

impl PlaceArguments {
    /// Takes the directory, which is made if it is not there.
    pub(crate) fn directory(&self) -> Result<Directory, Failure> {
        Directory::lock(&self.data.data).map_err(|error| match error {
            OpenError::InUse { .. } => Failure::failed(format_args!(
                "{error}; or go through the server that runs, with --online"
            )),
            _ => Failure::failed(error),
        })
    }

    /// Takes the directory, which has to be there.
    pub(crate) fn existing_directory(&self) -> Result<Directory, Failure> {
        self.data.check_there()?;
        self.directory()
    }
}
