//! What the command lines of `encke`, `encke-proxy` and `encke-lab` share: arguments, output,
//! errors, logs, manual pages.
//!
//! Must never contain what only one program does.

#![forbid(unsafe_code)]

/// Errors of commands, and the exit codes for them.
pub mod failure;
/// Arguments that commands of several programs share.
pub mod arguments;
/// Values of settings: addresses, bounds of times, the format of the log.
pub mod values;
/// Durations and sizes in arguments.
pub mod units;
/// Files that settings name.
pub mod files;
/// Secrets, which are read from files or settings and never shown.
pub mod secret;
/// Standard output.
pub mod output;
/// Progress of a command on standard error.
pub mod progress;
/// Logs on standard error.
pub mod logs;
/// Signals of programs that serve.
pub mod signals;
/// The limit on open files.
pub mod descriptors;
/// The file that has a server's addresses and process id.
pub mod ports_file;
/// The name of this run of the program.
pub mod epoch;
/// Completion scripts and manual pages.
pub mod manual;

use std::process::ExitCode;

use failure::Failure;

/// Returns the exit code of a command, after its error was printed to standard error.
pub fn conclude(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
