//! The original terms of ids: a file of the Erlang node in the data directory, which is backed up
//! with the graph.
//!
//! Owns its name. Must never know its contents.

use std::fs::File;
use std::io;

use super::Directory;

/// Name of the file in which the Erlang node keeps the original terms of ids.
pub const ID_TERMS_FILE: &str = "erlang-ids";

impl Directory {
    /// Opens the original terms of ids for reading; `None` if there are none. The crate that owns
    /// the file must only append to it or replace it as a whole, so that it can be read at any
    /// time.
    ///
    /// # Errors
    ///
    /// When the file exists and cannot be opened.
    pub fn open_id_terms(&self) -> io::Result<Option<File>> {
        match File::open(self.path().join(ID_TERMS_FILE)) {
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

    #[test]
    fn the_file_can_be_opened_after_the_directory_is_locked_again() {
        let directory = tempfile::tempdir().unwrap();
        let locked = Directory::lock(directory.path()).unwrap();
        assert!(locked.open_id_terms().unwrap().is_none());
        fs::write(directory.path().join(ID_TERMS_FILE), "kept").unwrap();
        drop(locked);
        let locked = Directory::lock(directory.path()).unwrap();
        let mut content = String::new();
        let file = locked.open_id_terms().unwrap();
        file.unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "kept");
    }
}
