//! Sidecar files: files of other crates in the data directory, which are backed up with the graph.
//!
//! Owns their names. Must never know their contents.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use datadir::LOCK;

use super::Directory;

/// Name of a file that another crate keeps in the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sidecar(&'static str);

impl Sidecar {
    /// Creates a name from lowercase letters, digits and hyphens. Meant for constants, so that an
    /// invalid name fails to compile.
    ///
    /// # Panics
    ///
    /// If the name is empty, has other characters, or is that of a file of the graph.
    pub const fn named(name: &'static str) -> Self {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty(), "a sidecar file has a name");
        let mut at = 0;
        while at < bytes.len() {
            assert!(
                matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'-'),
                "a sidecar file is named in lowercase letters, digits and hyphens"
            );
            at += 1;
        }
        assert!(
            !Self(name).is_same(Self(LOCK)),
            "the graph has a file of this name"
        );
        Self(name)
    }

    /// Returns whether both names are equal. For assertions at compile time between crates.
    pub const fn is_same(self, other: Self) -> bool {
        let (mut own, mut other) = (self.0.as_bytes(), other.0.as_bytes());
        while let ([first, rest @ ..], [other_first, other_rest @ ..]) = (own, other)
            && *first == *other_first
        {
            (own, other) = (rest, other_rest);
        }
        own.is_empty() && other.is_empty()
    }

    /// Returns the name of the file.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Returns the path of the file in the data directory at `directory`.
    pub fn path(self, directory: &Path) -> PathBuf {
        directory.join(self.0)
    }
}

impl Directory {
    /// Opens a sidecar file for reading; `None` if there is none. The crate that owns the file must
    /// only append to it or replace it as a whole, so that it can be read at any time.
    ///
    /// # Errors
    ///
    /// When the file exists and cannot be opened.
    pub fn open_sidecar(&self, sidecar: Sidecar) -> io::Result<Option<File>> {
        match File::open(sidecar.path(self.path())) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use super::*;

    const NOTES: Sidecar = Sidecar::named("notes-2");

    #[test]
    fn a_sidecar_file_can_be_opened_after_the_directory_is_locked_again() {
        let directory = tempfile::tempdir().unwrap();
        let locked = Directory::lock(directory.path()).unwrap();
        assert!(locked.open_sidecar(NOTES).unwrap().is_none());
        fs::write(NOTES.path(directory.path()), "kept").unwrap();
        drop(locked);
        let locked = Directory::lock(directory.path()).unwrap();
        let mut content = String::new();
        let file = locked.open_sidecar(NOTES).unwrap();
        file.unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "kept");
    }

    #[test]
    fn a_sidecar_file_cannot_take_the_name_of_a_file_of_the_graph() {
        for name in ["lock", "graph.redb", "graph.redb.new", "", "../x", "A"] {
            assert!(std::panic::catch_unwind(|| Sidecar::named(name)).is_err());
        }
    }
}
