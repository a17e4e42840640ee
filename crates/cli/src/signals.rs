//! Signals for the server commands.

pub use machine::signals::Request;
use machine::signals::Signals;

use crate::failure::Failure;

/// Catches the signals of a server. Must be called before its workers start.
///
/// # Errors
///
/// When the system refuses.
pub fn catch() -> Result<Signals, Failure> {
    Signals::catch()
        .map_err(|error| Failure::failed(format_args!("signals cannot be caught: {error}")))
}

/// Starts a thread that calls `handle` for each signal, until the process ends.
///
/// # Errors
///
/// When the thread cannot be started.
pub fn handle(
    signals: Signals,
    handle: impl FnMut(Request) + Send + 'static,
) -> Result<(), Failure> {
    signals.handle(handle).map_err(|error| {
        Failure::failed(format_args!(
            "the thread for signals cannot be started: {error}"
        ))
    })
}
