//! Signals that end or reload a program.
//!
//! Owns their meaning: the first SIGINT or SIGTERM asks the program to end, the second ends the
//! process at once. Must never decide how a program ends.

use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;
use signal_hook::low_level::signal_name;

/// Caught signals.
#[derive(Debug)]
pub struct Signals(Caught);

/// Request made by a signal, with the name of the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// End after the work under way.
    End(&'static str),
    /// End at once: the process exits when the handler returns.
    Exit(&'static str),
    /// Read the configuration again.
    Reload(&'static str),
}

impl Signals {
    /// Starts to catch SIGINT, SIGTERM and SIGHUP, for a server.
    ///
    /// Must be called before threads with their own descriptor tables start: the signal handler
    /// writes to a descriptor, in the table of the thread that it interrupts.
    ///
    /// # Errors
    ///
    /// When the signals cannot be caught.
    pub fn catch() -> io::Result<Self> {
        Caught::new([SIGTERM, SIGINT, SIGHUP]).map(Self)
    }

    /// Starts to catch SIGINT and SIGTERM, for a tool, which SIGHUP ends.
    ///
    /// # Errors
    ///
    /// When the signals cannot be caught.
    pub fn catch_interrupts() -> io::Result<Self> {
        Caught::new([SIGTERM, SIGINT]).map(Self)
    }

    /// Starts a thread that passes each request to `handle` until the process ends.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn handle(self, mut handle: impl FnMut(Request) + Send + 'static) -> io::Result<()> {
        let Self(mut caught) = self;
        let run = move || {
            let mut order = Order::default();
            for signal in &mut caught {
                let request = order.request(signal);
                handle(request);
                if let Request::Exit(_) = request {
                    // The exit status that a shell reports for a process killed by the signal.
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "the user asked twice: the process ends at once"
                    )]
                    std::process::exit(128 + signal);
                }
            }
        };
        let thread = thread::Builder::new().name("encke-signals".to_owned());
        thread.spawn(run).map(drop)
    }
}

/// Whether an end was requested already.
#[derive(Debug, Default)]
struct Order {
    ending: bool,
}

impl Order {
    fn request(&mut self, signal: i32) -> Request {
        let name = signal_name(signal).unwrap_or("signal");
        match signal {
            SIGHUP => Request::Reload(name),
            _ if self.ending => Request::Exit(name),
            _ => {
                self.ending = true;
                Request::End(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_to_end_exits_and_reloads_do_not_count() {
        let mut order = Order::default();
        let requests = [SIGHUP, SIGTERM, SIGHUP, SIGINT].map(|signal| order.request(signal));
        let expected = [
            Request::Reload("SIGHUP"),
            Request::End("SIGTERM"),
            Request::Reload("SIGHUP"),
            Request::Exit("SIGINT"),
        ];
        assert_eq!(requests, expected);
    }
}
