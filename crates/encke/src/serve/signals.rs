//! Signals: the first ends the server gently, the second at once.

use std::process;
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use server::Handle;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;
use signal_hook::low_level::signal_name;

use crate::failure::Failure;

/// Signals caught and not yet acted upon.
pub(super) struct Signals(Caught);

impl Signals {
    /// Catches the signals from now on. Must come before threads with descriptor tables of their
    /// own: the handler writes to a descriptor, in the table of whatever thread it interrupts.
    pub(super) fn catch() -> Result<Self, Failure> {
        Caught::new([SIGTERM, SIGINT, SIGHUP])
            .map(Self)
            .map_err(|error| Failure::failed(format_args!("signals cannot be caught: {error}")))
    }

    /// Acts on the signals, on a thread of its own, until the process ends.
    pub(super) fn end_gently(mut self, server: Handle, timeout: Duration) -> Result<(), Failure> {
        let act = move || {
            for signal in &mut self.0 {
                let name = signal_name(signal).unwrap_or("signal");
                if signal == SIGHUP {
                    tracing::info!("SIGHUP is ignored: settings are read at start");
                } else if server.is_draining() {
                    tracing::warn!("{name} again: ending at once");
                    // What a shell reports for a process that the signal killed.
                    process::exit(128 + signal);
                } else {
                    tracing::info!(
                        "{name}: streams are told to come back, and the server ends within \
                         {timeout:?}; once more ends it at once"
                    );
                    super::tell_manager(&[NotifyState::Stopping]);
                    server.drain();
                }
            }
        };
        let thread = thread::Builder::new()
            .name("encke-signals".to_owned())
            .spawn(act);
        thread.map(drop).map_err(|error| {
            Failure::failed(format_args!(
                "the thread for signals cannot be made: {error}"
            ))
        })
    }
}
