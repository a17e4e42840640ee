//! Files that settings name. Files with secrets must be private.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Longest file of keys, certificates or tokens, in bytes, so that a wrong path to a huge file does
/// not fill the memory.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Permission bits of users that are neither the owner nor in the group of a file.
const OTHERS: u32 = 0o007;

/// Reads a file without secrets, such as a certificate.
///
/// # Errors
///
/// When it cannot be read or is larger than 1 MiB. The error is a sentence with the path.
pub fn read_public(path: &Path) -> Result<Vec<u8>, String> {
    read(path, |_| Ok(()))
}

/// Reads a file with a secret.
///
/// # Errors
///
/// When it cannot be read, is larger than 1 MiB, or every user of the machine has access to it. The
/// error is a sentence with the path.
pub fn read_private(path: &Path) -> Result<Vec<u8>, String> {
    read(path, |mode| {
        if mode & OTHERS == 0 {
            return Ok(());
        }
        let shown = path.display();
        Err(format!(
            "all users of this machine have access to the file {shown} (mode {:03o}), and it holds \
             a secret; run `chmod 600 {shown}`",
            mode & 0o777
        ))
    })
}

fn read(path: &Path, check_mode: impl Fn(u32) -> Result<(), String>) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let unreadable = |error| format!("the file {shown} cannot be read: {error}");
    // The mode is that of the open file, which no other file can replace in between.
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(format!("{shown} is a directory; expected a file"));
    }
    check_mode(metadata.mode())?;
    let mut bytes = Vec::new();
    let mut bounded = file.take(FILE_BYTES_MAX + 1);
    bounded.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("the file {shown} is larger than 1 MiB"));
    }
    Ok(bytes)
}
