//! Signals of the server commands, with this program's errors.

pub(crate) use machine::signals::Request;
use machine::signals::Signals;

use crate::failure::Failure;

/// Catches the signals of a server. Must come before the start of its workers.
pub(crate) fn catch() -> Result<Signals, Failure> {
    Signals::catch()
        .map_err(|error| Failure::failed(format_args!("signals cannot be caught: {error}")))
}

/// Hands each request to `handle`, on a thread of its own, until the process ends.
pub(crate) fn handle(
    signals: Signals,
    handle: impl FnMut(Request) + Send + 'static,
) -> Result<(), Failure> {
    signals.handle(handle).map_err(|error| {
        Failure::failed(format_args!(
            "the thread for signals cannot be started: {error}"
        ))
    })
}
