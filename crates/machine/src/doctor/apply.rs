//! Changes settings, and knows what they were.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Remedy;
use crate::failure::{Failure, Outcome};

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What was typed, as it were.
    pub command: String,
    /// What to type to undo it.
    pub undo: String,
    #[serde(skip)]
    file: PathBuf,
    #[serde(skip)]
    before: String,
}

/// What became of changes.
#[derive(Debug, Default)]
pub struct Applied {
    /// Those that were made, in order.
    pub made: Vec<Change>,
    /// Why others were not, as a sentence.
    pub refused: Option<Failure>,
}

/// Makes the changes of `remedies` below `root`, in order; advice is passed over. The first that
/// the system refuses ends it; those before it stay made.
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

/// Gives back what was before, the last change first. Says which could not be.
///
/// # Errors
///
/// When at least one file could not be written: the sentence has the commands that remain to be
/// run.
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
        "these settings could not be given back; do it yourself: {}",
        failed.join("; ")
    )))
}

/// Where a remedy writes what.
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

/// Writes and reads back: some settings take a write and keep what they had. Others spell it in a
/// way of their own. Returns what was.
fn write(file: &Path, value: &str) -> io::Result<String> {
    let before = read(file)?;
    fs::write(file, line(value))?;
    if before != value && read(file)? == before {
        return Err(io::Error::other(format!("it stays at {before}")));
    }
    Ok(before)
}

/// A setting that is empty has to be written as well: nothing at all would be no write.
fn line(value: &str) -> String {
    format!("{value}\n")
}

/// The value of a setting; of a choice, the word that is chosen.
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
            "kernel settings are changed by root only: run it with sudo, or give --sysctl-conf to \
             whoever may"
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
