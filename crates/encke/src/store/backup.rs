//! `encke graph backup`: a copy of the graph, from its directory or from the server that has it.

use std::fs::{self, OpenOptions};
use std::path::Path;

use serde_json::json;

use crate::arguments::BackupArguments;
use crate::failure::Failure;
use crate::output;
use crate::units::spoken_size;

/// Copies the graph.
pub(super) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    let file = &arguments.file;
    if arguments.online {
        online(arguments, file)?;
    } else {
        let directory = arguments.data.existing().map_err(|failure| match failure {
            Failure::Failed(sentence) if sentence.contains("in use") => Failure::failed(
                format_args!("{sentence}; or copy from the server that runs, with --online"),
            ),
            other => other,
        })?;
        let snapshot = directory.snapshot().map_err(Failure::failed)?;
        snapshot.copy_to(file).map_err(Failure::failed)?;
    }
    let bytes = fs::metadata(file).map_err(Failure::failed)?.len();
    if arguments.report.json {
        return output::json(&json!({ "file": file, "bytes": bytes })).map(drop);
    }
    let size = spoken_size(bytes);
    output::line(format_args!("{} has the graph, {size}", file.display())).map(drop)
}

/// Writes under another name first: half a copy must not look like one.
fn online(arguments: &BackupArguments, file: &Path) -> Result<(), Failure> {
    let written = |error| {
        Failure::failed(format_args!(
            "{} cannot be written: {error}",
            file.display()
        ))
    };
    if file.try_exists().map_err(written)? {
        return Err(Failure::failed(format_args!(
            "{} is there already; choose another name",
            file.display()
        )));
    }
    let mut client = arguments.control.client()?;
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = Path::new(&unfinished);
    let mut copy = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(unfinished)
        .map_err(written)?;
    let copied = client
        .backup(&mut copy)
        .map_err(Failure::from)
        .and_then(|()| copy.sync_all().map_err(written))
        .and_then(|()| fs::rename(unfinished, file).map_err(written));
    copied.inspect_err(|_| {
        let _ = fs::remove_file(unfinished);
    })
}
