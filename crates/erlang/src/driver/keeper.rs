//! The file that keeps how ids were spelt from one life of the node to the next.
//!
//! A line that says what it is, then terms behind their sizes, the last spelling of an id being right. What
//! is appended is on disk before the call that put it in is answered; a record that was cut ends the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use graph::{Graph, Sidecar};

use crate::spellings::Spellings;

/// The name of the file.
pub const ID_TERMS_FILE: Sidecar = Sidecar::named("erlang-ids");

/// Its first line.
const TITLE: &[u8] = b"ids as Erlang nodes of Encke have spelt them, version 1\n";

/// A file is written anew when it has grown to twice what is in it and this.
const SLACK_BYTES: u64 = 1 << 20;

/// The file, open at its end.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    file: File,
    bytes: u64,
    rewrite_at: u64,
}

impl Keeper {
    /// Reads the file in a data directory, if there is one, and writes it anew without what is out of date.
    ///
    /// # Errors
    ///
    /// When it is another file, or cannot be read or written.
    pub(super) fn open(directory: &Path, graph: &Graph) -> io::Result<(Self, Spellings)> {
        let path = ID_TERMS_FILE.path(directory);
        let known = match fs::read(&path) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::NotFound => TITLE.to_vec(),
            Err(error) => return Err(named(&path, &error)),
        };
        let Some(records) = known.strip_prefix(TITLE) else {
            return Err(io::Error::other(format!(
                "{} does not begin as the file of how Erlang nodes spell ids; move it away",
                path.display()
            )));
        };
        let spellings = Spellings::kept(graph, records);
        let keeper = Self::write(path, &spellings)?;
        Ok((keeper, spellings))
    }

    /// Puts on disk what was spelt since the last time.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn keep(&mut self, spellings: &mut Spellings) -> io::Result<()> {
        let records = spellings.take_unsaved();
        if records.is_empty() {
            return Ok(());
        }
        if self.bytes > self.rewrite_at {
            *self = Self::write(std::mem::take(&mut self.path), spellings)?;
            return Ok(());
        }
        self.bytes += records.len() as u64;
        let written = self.file.write_all(&records);
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|error| named(&self.path, &error))
    }

    /// Writes the file at once or not at all.
    fn write(path: PathBuf, spellings: &Spellings) -> io::Result<Self> {
        let draft = path.with_extension("new");
        let records = spellings.records();
        let written = || {
            let mut file = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .open(&draft)?;
            file.write_all(TITLE)?;
            file.write_all(&records)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            if let Some(directory) = path.parent() {
                File::open(directory)?.sync_all()?;
            }
            Ok(file)
        };
        let file = written().map_err(|error| named(&path, &error))?;
        let bytes = (TITLE.len() + records.len()) as u64;
        Ok(Self {
            path,
            file,
            bytes,
            rewrite_at: 2 * bytes + SLACK_BYTES,
        })
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use graph::Id;

    use super::*;
    use crate::bed::peer::atom;

    #[test]
    fn the_file_is_read_again_and_grows_no_further_than_it_must() {
        let directory = tempfile::tempdir().unwrap();
        let graph = Graph::memory();
        let id = Id::parse("alice").unwrap();
        graph.subscribe(&id, &Id::parse("rj").unwrap()).unwrap();
        let spellings = [atom("alice"), b"k\0\x05alice".to_vec()];
        for life in 0..3 {
            let (mut keeper, mut known) = Keeper::open(directory.path(), &graph).unwrap();
            assert_eq!(known.records().is_empty(), life == 0);
            for _ in 0..60 {
                for spelling in spellings.iter().cycle().take(5001) {
                    known.remember(&graph, &id, spelling);
                }
                keeper.keep(&mut known).unwrap();
            }
            let mut out = Vec::new();
            known.write(&mut out, &id);
            assert_eq!(out, spellings[0]);
        }
        let kept = fs::metadata(ID_TERMS_FILE.path(directory.path()))
            .unwrap()
            .len();
        assert!(kept < 2 * SLACK_BYTES, "{kept} bytes");
    }

    #[test]
    fn another_file_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = ID_TERMS_FILE.path(directory.path());
        fs::write(&path, "something else").unwrap();
        let refused = Keeper::open(directory.path(), &Graph::memory()).unwrap_err();
        assert!(refused.to_string().contains("move it away"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"something else");
    }
}
