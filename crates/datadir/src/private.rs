//! Permissions: only the server's user can read a data directory and what is in it.
//!
//! Ids, subscriptions and events say who follows whom and why, so other users of the machine must
//! not read them. Directories and files that others could read are made private when they are
//! opened. Must never change a directory that is not for the caller's files alone.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Permissions of a data directory.
const DIRECTORY_MODE: u32 = 0o700;

/// Permissions of a file in it.
const FILE_MODE: u32 = 0o600;

/// Permissions of other users than the owner.
const OTHERS: u32 = 0o077;

/// Makes a data directory, or makes an existing one private.
///
/// # Errors
///
/// When it cannot be made, when its permissions cannot be changed, and when others may use an
/// existing one that has other files.
pub(crate) fn make_directory(path: &Path, is_own: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => return made,
    }
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let shown = mode & 0o7777;
    if !is_for_own_files(path, is_own)? {
        return Err(io::Error::other(format!(
            "it has other files, and other users may use it (mode {shown:04o}); use a directory of \
             its own, or remove their rights with chmod 700"
        )));
    }
    fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!(
                "other users may use it (mode {shown:04o}), and its mode cannot be changed: \
                 {error}; remove their rights with chmod 700"
            ),
        )
    })
}

/// Returns whether a directory is empty or has a file of the caller. `lost+found` is in an empty
/// file system.
fn is_for_own_files(path: &Path, is_own: impl Fn(&OsStr) -> bool) -> io::Result<bool> {
    let mut has_others = false;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if is_own(&name) {
            return Ok(true);
        }
        has_others |= name != "lost+found";
    }
    Ok(!has_others)
}

/// Creates a private file for reading and writing, where nothing is.
///
/// # Errors
///
/// When it cannot be created, or something has its name.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Opens an existing file for reading and writing, and makes it private.
///
/// # Errors
///
/// When it cannot be opened, or is a symbolic link.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true).write(true))
}

/// Opens a file for reading and writing, and makes it if it is not there.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    open_with(path, options.mode(FILE_MODE))
}

/// Opens a private file. A symbolic link is not followed: a user who can put one there would
/// choose the file that is overwritten.
fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let opened = options.custom_flags(flags).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => {
            io::Error::other(format!("{} is a symbolic link: remove it", path.display()))
        }
        _ => error,
    })?;
    make_private(&file)?;
    Ok(file)
}

/// Takes the rights of other users to a file away.
///
/// # Errors
///
/// When the system refuses.
pub fn make_private(file: &File) -> io::Result<()> {
    if file.metadata()?.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(FILE_MODE))
}
