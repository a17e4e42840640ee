//! Files that commands write.

use std::io;
use std::path::Path;

use cli::failure::Failure;

/// Returns the error of a file that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::failed(format_args!("{path} cannot be written: {error}"))
}
