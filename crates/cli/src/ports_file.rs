//! The file that has a server's addresses and process id, for scripts (`--ports-file`).

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Writes the file atomically.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(path: &Path, ports: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(ports).map_err(Failure::failed)?;
    text.push('\n');
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    fs::write(&draft, text)
        .and_then(|()| fs::rename(&draft, path))
        .map_err(|error| {
            Failure::failed(format_args!(
                "the ports file {} cannot be written: {error}",
                path.display()
            ))
        })
}
