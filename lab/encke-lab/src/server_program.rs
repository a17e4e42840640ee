//! The program of the server that is measured.

use std::env;
use std::path::{Path, PathBuf};

/// Returns the program at `given`, else the `encke` beside this program, else that in the `PATH`.
pub(crate) fn find(given: Option<&Path>) -> PathBuf {
    if let Some(given) = given {
        return given.to_owned();
    }
    let beside = env::current_exe().map(|own| own.with_file_name("encke"));
    match beside {
        Ok(beside) if beside.is_file() => beside,
        _ => PathBuf::from("encke"),
    }
}
