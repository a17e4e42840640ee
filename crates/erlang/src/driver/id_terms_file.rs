//! The file that keeps the original terms of ids across restarts.
//!
//! The file has a title line, then records: a size and a term. The last term of an id is the valid
//! one. Records are on disk before the call that added them is answered. An incomplete record ends
//! the file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use graph::{Graph, ID_TERMS_FILE};

use crate::id_terms::IdTerms;

/// The title line.
const TITLE: &[u8] = b"ids as Erlang nodes of Encke have spelt them, version 1\n";

/// The file is rewritten when it is larger than twice its content plus this.
const SLACK_BYTES: u64 = 1 << 20;

/// The file, open for appending.
#[derive(Debug)]
pub(crate) struct IdTermsFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    rewrite_at: u64,
}

impl IdTermsFile {
    /// Reads the file of a data directory, if there is one, and rewrites it without outdated
    /// records. If the graph `is_behind` a log, no id is treated as outdated.
    ///
    /// # Errors
    ///
    /// When the file has another format, or cannot be read or written.
    pub(super) fn open(
        directory: &Path,
        graph: &Graph,
        is_behind: bool,
    ) -> io::Result<(Self, IdTerms)> {
        let path = directory.join(ID_TERMS_FILE);
        let known = match fs::read(&path) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::NotFound => TITLE.to_vec(),
            Err(error) => return Err(named(&path, &error)),
        };
        let Some(records) = known.strip_prefix(TITLE) else {
            return Err(io::Error::other(format!(
                "{} is not a file of original terms of ids; move it away",
                path.display()
            )));
        };
        let id_terms = IdTerms::restore(graph, records, is_behind);
        let id_terms_file = Self::write(path, &id_terms)?;
        Ok((id_terms_file, id_terms))
    }

    /// Appends the terms that were added since the last call, and waits until they are on disk.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(super) fn append(&mut self, id_terms: &mut IdTerms) -> io::Result<()> {
        let records = id_terms.take_unsaved();
        if records.is_empty() {
            return Ok(());
        }
        if self.bytes > self.rewrite_at {
            *self = Self::write(std::mem::take(&mut self.path), id_terms)?;
            return Ok(());
        }
        self.bytes += records.len() as u64;
        let written = self.file.write_all(&records);
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|error| named(&self.path, &error))
    }

    /// Replaces the file as a whole.
    fn write(path: PathBuf, id_terms: &IdTerms) -> io::Result<Self> {
        let draft = path.with_extension("new");
        let records = id_terms.records();
        let written = || {
            let mut file = File::create(&draft)?;
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
    use std::fs::OpenOptions;
    use std::os::unix::fs::symlink;

    use graph::Id;

    use super::*;
    use crate::sim::peer::atom;

    #[test]
    fn the_file_is_read_again_and_its_size_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let graph = Graph::memory();
        let id = Id::parse("alice").unwrap();
        graph.subscribe(&id, &Id::parse("rj").unwrap()).unwrap();
        let id_terms = [atom("alice"), b"k\0\x05alice".to_vec()];
        for life in 0..3 {
            let (mut id_terms_file, mut known) =
                IdTermsFile::open(directory.path(), &graph, false).unwrap();
            assert_eq!(known.records().is_empty(), life == 0);
            for _ in 0..60 {
                for spelling in id_terms.iter().cycle().take(5001) {
                    known.remember(&graph, &id, spelling);
                }
                id_terms_file.append(&mut known).unwrap();
            }
            let mut out = Vec::new();
            known.write(&mut out, &id);
            assert_eq!(out, id_terms[0]);
        }
        let kept = fs::metadata(directory.path().join(ID_TERMS_FILE))
            .unwrap()
            .len();
        assert!(kept < 2 * SLACK_BYTES, "{kept} bytes");
    }

    /// `/dev/null` cannot be synced, so an append that syncs must fail on it.
    #[test]
    fn terms_are_synced_before_their_call_is_answered() {
        let directory = tempfile::tempdir().unwrap();
        let graph = Graph::memory();
        let id = Id::parse("alice").unwrap();
        graph.subscribe(&id, &Id::parse("rj").unwrap()).unwrap();
        let (mut id_terms_file, mut known) =
            IdTermsFile::open(directory.path(), &graph, false).unwrap();
        known.remember(&graph, &id, &atom("alice"));
        id_terms_file.append(&mut known).unwrap();
        let device = OpenOptions::new().append(true).open("/dev/null");
        id_terms_file.file = device.unwrap();
        known.remember(&graph, &id, b"k\0\x05alice");
        id_terms_file.append(&mut known).unwrap_err();
    }

    #[test]
    fn a_new_file_is_synced_before_it_replaces_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(ID_TERMS_FILE);
        symlink("/dev/null", path.with_extension("new")).unwrap();
        IdTermsFile::open(directory.path(), &Graph::memory(), false).unwrap_err();
        assert!(fs::symlink_metadata(&path).is_err());
    }

    #[test]
    fn a_file_of_another_format_is_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(ID_TERMS_FILE);
        fs::write(&path, "something else").unwrap();
        let refused = IdTermsFile::open(directory.path(), &Graph::memory(), false).unwrap_err();
        assert!(refused.to_string().contains("move it away"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"something else");
    }
}
