//! How a server command ends: the first signal asks it to, the second insists.
//!
//! Also what a server tells scripts when it is ready: where it listens, and its process id.

use std::fs;
use std::path::Path;
use std::process;
use std::thread;

use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;

use crate::failure::Failure;

/// Signals caught and not yet acted upon.
pub(crate) struct Ending(Caught);

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To end when what is under way is done.
    End,
    /// To read the configuration again.
    Reload,
}

impl Ending {
    /// Catches the signals from now on. Must come before threads with descriptor tables of their
    /// own: the handler writes to a descriptor, in the table of whatever thread it interrupts.
    pub(crate) fn catch() -> Result<Self, Failure> {
        Caught::new([SIGTERM, SIGINT, SIGHUP])
            .map(Self)
            .map_err(|error| Failure::failed(format_args!("signals cannot be caught: {error}")))
    }

    /// Hands wishes to `act`, on a thread of its own, until the process ends. A second wish to end
    /// is not handed on: the process ends at once, as if the signal had killed it.
    pub(crate) fn obey(
        mut self,
        mut act: impl FnMut(Wish) + Send + 'static,
    ) -> Result<(), Failure> {
        let obey = move || {
            let mut ending = false;
            for signal in &mut self.0 {
                match signal {
                    SIGHUP => act(Wish::Reload),
                    _ if ending => process::exit(128 + signal),
                    _ => {
                        ending = true;
                        act(Wish::End);
                    }
                }
            }
        };
        let thread = thread::Builder::new()
            .name("encke-signals".to_owned())
            .spawn(obey);
        thread.map(drop).map_err(|error| {
            Failure::failed(format_args!(
                "the thread for signals cannot be made: {error}"
            ))
        })
    }
}

/// Writes what scripts wait for, at once or not at all.
pub(crate) fn write_ports(path: &Path, ports: &impl Serialize) -> Result<(), Failure> {
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
