//! The limit on open files.

use machine::host;

/// Raises the limit on descriptors as far as an unprivileged process may. Logs a refusal.
pub fn raise_limit() {
    if let Err(failure) = host::raise_descriptor_limit() {
        tracing::warn!("{failure}");
    }
}
