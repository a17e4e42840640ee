//! `encke graph backup`: copies the graph and the original terms of its ids, from a data directory
//! or from the server that uses it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use cli::arguments::{PlaceArguments, Report};
use cli::failure::Failure;
use cli::units::human_size;
use serde_json::json;

pub(super) const HELP: &str = "\
The copy holds the graph after one commit. If Erlang nodes have added ids, their original terms are
copied to a second file, whose name ends with .erlang-ids. To restore a copy, stop the server and
put the files into its data directory as graph.redb and erlang-ids.

Examples:
  encke graph backup monday.redb --online
  encke graph backup monday.redb --data encke-data";

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// File for the copy; it must not exist yet
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Copies the graph and the original terms of its ids.
pub(super) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    let file = &*arguments.file;
    let id_terms = with_suffix(file, ".erlang-ids");
    for path in [file, &id_terms] {
        if path.try_exists().map_err(|error| unwritten(path, &error))? {
            return Err(Failure::failed(format_args!(
                "{} exists already; choose another name",
                path.display()
            )));
        }
    }
    let terms = match arguments.place.online {
        true => online(arguments, &id_terms)?,
        false => offline(arguments, &id_terms)?,
    };
    report(arguments, terms.then_some(&*id_terms))
}

/// Copies from a directory that no server uses. Returns whether there are original terms of ids.
fn offline(arguments: &BackupArguments, id_terms: &Path) -> Result<bool, Failure> {
    let directory = super::opened::existing_unless_used(&arguments.place)?;
    let snapshot = directory.snapshot().map_err(Failure::failed)?;
    let mut terms = directory.open_id_terms().map_err(Failure::failed)?;
    let draft = Draft::write(id_terms, |copy| match &mut terms {
        Some(terms) => io::copy(terms, copy).map(drop).map_err(Failure::failed),
        None => Ok(()),
    })?;
    // The graph gets its name last: if it is there, the copy is complete.
    let has_id_terms = draft.keep_unless_empty()?;
    let copied = snapshot.copy_to(&arguments.file);
    copied.map_err(Failure::failed).inspect_err(|_| {
        let _ = fs::remove_file(id_terms);
    })?;
    Ok(has_id_terms)
}

/// Copies from a running server. Returns whether there are original terms of ids.
fn online(arguments: &BackupArguments, id_terms: &Path) -> Result<bool, Failure> {
    let mut client = arguments.place.control.client()?;
    // The graph is read first, so that the terms of all its ids are in the second file. It gets its
    // name last, as above.
    let graph = Draft::write(&arguments.file, |copy| Ok(client.backup(copy)?))?;
    let terms = Draft::write(id_terms, |copy| Ok(client.backup_erlang_ids(copy)?))?;
    let has_id_terms = terms.keep_unless_empty()?;
    graph.keep()?;
    Ok(has_id_terms)
}

fn report(arguments: &BackupArguments, id_terms: Option<&Path>) -> Result<(), Failure> {
    let file = &arguments.file;
    let bytes = fs::metadata(file).map_err(Failure::failed)?.len();
    let report = json!({ "file": file, "bytes": bytes, "erlang_ids": id_terms });
    arguments.report.print(&report, || {
        let graph = format!(
            "{} contains the graph, {}",
            file.display(),
            human_size(bytes)
        );
        let terms = id_terms.map(|path| {
            let path = path.display();
            format!("\n{path} contains the original terms of its ids")
        });
        graph + &terms.unwrap_or_default()
    })
}

/// A copy that has a temporary name until it is complete, so that half a copy does not look like a
/// whole one. Removed when dropped.
struct Draft<'a> {
    path: &'a Path,
    unfinished: PathBuf,
    bytes: u64,
}

impl<'a> Draft<'a> {
    /// Writes and syncs a copy that is to be at `path`.
    fn write(
        path: &'a Path,
        fill: impl FnOnce(&mut File) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut draft = Self {
            path,
            unfinished: with_suffix(path, ".new"),
            bytes: 0,
        };
        let mut copy = OpenOptions::new()
            .mode(0o600)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&draft.unfinished)
            .map_err(|error| unwritten(path, &error))?;
        fill(&mut copy)?;
        draft.bytes = copy
            .sync_all()
            .and_then(|()| Ok(copy.metadata()?.len()))
            .map_err(|error| unwritten(path, &error))?;
        Ok(draft)
    }

    fn keep(self) -> Result<(), Failure> {
        fs::rename(&self.unfinished, self.path).map_err(|error| unwritten(self.path, &error))
    }

    /// Keeps the copy unless it is empty. Returns whether it was kept.
    fn keep_unless_empty(self) -> Result<bool, Failure> {
        if self.bytes == 0 {
            return Ok(false);
        }
        self.keep().map(|()| true)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.unfinished);
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format_args!(
        "{} cannot be written: {error}",
        path.display()
    ))
}
