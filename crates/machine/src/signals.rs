//! Signals that end or reload a program.
//!
//! Owns their meaning: the first SIGINT or SIGTERM asks the program to end, the second ends the
//! process at once. Must never decide how a program ends.

use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Caught;
use signal_hook::low_level::signal_name;

/// Signals that are caught and not yet handled.
#[derive(Debug)]
pub struct Signals(Caught);

/// What a signal asks for. Carries the name of the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// End when the work under way is done.
    End(&'static str),
    /// End at once: the process exits when the handler returns.
    Exit(&'static str),
    /// Read the configuration again.
    Reload(&'static str),
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on, for a server.
    ///
    /// Must come before the start of threads with descriptor tables of their own: the signal
    /// handler writes to a descriptor, in the table of the thread that it interrupts.
    ///
    /// # Errors
    ///
    /// When the signals cannot be caught.
    pub fn catch() -> io::Result<Self> {
        Caught::new([SIGTERM, SIGINT, SIGHUP]).map(Self)
    }

    /// Catches SIGINT and SIGTERM from now on, for a tool, which SIGHUP ends.
    ///
    /// # Errors
    ///
    /// When the signals cannot be caught.
    pub fn catch_interrupts() -> io::Result<Self> {
        Caught::new([SIGTERM, SIGINT]).map(Self)
    }

    /// Hands each request to `handle`, on a thread of its own, until the process ends.
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

/// The order in which signals came.
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
    fn the_second_signal_to_end_ends_at_once_and_a_reload_does_not_count() {
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
