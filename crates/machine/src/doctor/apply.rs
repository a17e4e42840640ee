//! Applies kernel settings and reverts them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Remedy;
use crate::failure::{Failure, Outcome};

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Command that makes the same change.
    pub command: String,
    /// Command that undoes it.
    pub undo: String,
    #[serde(skip)]
    file: PathBuf,
    #[serde(skip)]
    before: String,
}

/// Result of [`apply`].
#[derive(Debug, Default)]
pub struct Applied {
    /// Changes made, in order.
    pub made: Vec<Change>,
    /// Why the next change failed.
    pub refused: Option<Failure>,
}

/// Applies `remedies` to the files below `root`, in order, and skips advice. Stops at the first
/// that the system refuses; earlier changes remain.
pub fn apply<'a>(remedies: impl Iterator<Item = &'a Remedy>, root: &Path) -> Applied {
    let mut applied = Applied::default();
    for remedy in remedies {
        let Some((path, value)) = target(remedy) else {
            continue;
        };
        let file = root.join(path.trim_start_matches('/'));
        match write(&file, &value) {
            Ok(before) => applied.made.push(Change {
                command: remedy.command(),
                undo: undo(remedy, &before),
                file,
                before,
            }),
            Err(error) => {
                applied.refused = Some(refused(remedy, &error));
                break;
            }
        }
    }
    applied
}

/// Reverts the changes, the last one first.
///
/// # Errors
///
/// When at least one file could not be written: the error has the commands that remain to be run.
pub fn revert(changes: &[Change]) -> Outcome<()> {
    let failed: Vec<String> = changes
        .iter()
        .rev()
        .filter(|change| fs::write(&change.file, line(&change.before)).is_err())
        .map(|change| change.undo.clone())
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "these settings could not be reverted; run the commands yourself: {}",
        failed.join("; ")
    )))
}

/// Returns the file that a remedy writes, and the value.
fn target(remedy: &Remedy) -> Option<(String, String)> {
    match remedy {
        Remedy::Setting { name, value } => {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            Some((path, value.clone()))
        }
        Remedy::Switch { path, word } => Some(((*path).to_owned(), (*word).to_owned())),
        Remedy::Advice(_) => None,
    }
}

/// Writes a value and returns the one before. Fails if the file still has the old value, as some
/// settings ignore a write. A different spelling of the new value is accepted.
fn write(file: &Path, value: &str) -> io::Result<String> {
    let before = read(file)?;
    fs::write(file, line(value))?;
    if before != value && read(file)? == before {
        return Err(io::Error::other(format!("the value is still {before}")));
    }
    Ok(before)
}

/// Appends a newline, as an empty value needs at least one byte to be written.
fn line(value: &str) -> String {
    format!("{value}\n")
}

/// Reads the value of a setting; if it is a choice, the chosen word.
fn read(file: &Path) -> io::Result<String> {
    let text = fs::read_to_string(file)?;
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(word, _)| word);
    Ok(chosen.unwrap_or(&text).trim().replace('\t', " "))
}

fn undo(remedy: &Remedy, before: &str) -> String {
    match remedy {
        Remedy::Setting { name, .. } => Remedy::setting(name, before).command(),
        Remedy::Switch { path, .. } => format!("echo {before} > {path}"),
        Remedy::Advice(_) => String::new(),
    }
}

fn refused(remedy: &Remedy, error: &io::Error) -> Failure {
    Failure::new(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root may change kernel settings: run it with sudo, or pass the output of \
             --sysctl-conf to an administrator"
                .to_owned()
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "kernel settings are read-only here, as in a container: change them on the host with \
             --sysctl-conf"
                .to_owned()
        }
        _ => format!("`{}` was refused: {error}", remedy.command()),
    })
}
