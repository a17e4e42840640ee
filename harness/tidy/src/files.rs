//! Files of the repository.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Folders of crates.
pub const ROOMS: &[&str] = &["crates", "proxy", "lab", "harness"];

/// Directories of generated or downloaded files.
const SKIPPED: &[&str] = &["target", "node_modules", "corpus", "artifacts"];

/// A text file of the repository.
#[derive(Debug)]
pub struct TextFile {
    /// Path from the top of the repository, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// Returns the path of the top of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads all Rust sources below `root`, in the order of their paths.
///
/// # Errors
///
/// When a directory or a file cannot be read.
pub fn rust_sources(root: &Path) -> io::Result<Vec<TextFile>> {
    files_named(root, ".rs")
}

/// Reads all pages in Markdown below `root`, in the order of their paths.
///
/// # Errors
///
/// When a directory or a file cannot be read.
pub fn pages(root: &Path) -> io::Result<Vec<TextFile>> {
    files_named(root, ".md")
}

fn files_named(root: &Path, ending: &str) -> io::Result<Vec<TextFile>> {
    let mut files = Vec::new();
    collect(root, "", ending, &mut files)?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

/// Lists all files below a directory of the repository, with their sizes in bytes, in the order of
/// their paths. The list is empty if there is no such directory.
///
/// # Errors
///
/// When a directory cannot be read.
pub fn sizes(root: &Path, path: &str) -> io::Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(root.join(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = format!("{path}/{}", entry.file_name().display());
        if entry.file_type()?.is_dir() {
            found.extend(sizes(root, &path)?);
        } else {
            found.push((path, entry.metadata()?.len()));
        }
    }
    found.sort();
    Ok(found)
}

fn collect(
    directory: &Path,
    path: &str,
    ending: &str,
    files: &mut Vec<TextFile>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}/{name}")
        };
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                collect(&entry.path(), &path, ending, files)?;
            }
        } else if name.ends_with(ending) {
            let text = fs::read_to_string(entry.path())?;
            files.push(TextFile { path, text });
        }
    }
    Ok(())
}
