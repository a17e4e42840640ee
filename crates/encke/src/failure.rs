//! Why a command stopped, and the exit code that says so.
//!
//! Owns the exit codes: 0 done, 1 failed, 2 misused, 75 to be started again.

use std::fmt;
use std::process::ExitCode;

/// `EX_TEMPFAIL` of sysexits.h: supervisors that tell exit codes apart start the program again.
const RESTART: u8 = 75;

/// Failure of a command. Each variant holds whole sentences for the user.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command is valid, but it failed.
    Failed(String),
    /// The command has to be run again, and then goes on.
    Restart(String),
    /// The command or its configuration is invalid; each sentence is one problem.
    Misused(Vec<String>),
}

impl Failure {
    /// A failure that reads as `sentence`.
    pub(crate) fn failed(sentence: impl fmt::Display) -> Self {
        Self::Failed(sentence.to_string())
    }

    /// A misuse that reads as `sentence`.
    pub(crate) fn misused(sentence: impl fmt::Display) -> Self {
        Self::Misused(vec![sentence.to_string()])
    }

    /// Exit code of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::from(1),
            Self::Restart(_) => ExitCode::from(RESTART),
            Self::Misused(_) => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(sentence) | Self::Restart(sentence) => write!(f, "error: {sentence}"),
            Self::Misused(sentences) => {
                for (number, sentence) in sentences.iter().enumerate() {
                    let line_break = if number == 0 { "" } else { "\n" };
                    write!(f, "{line_break}error: {sentence}")?;
                }
                Ok(())
            }
        }
    }
}

impl From<machine::failure::Failure> for Failure {
    fn from(failure: machine::failure::Failure) -> Self {
        Self::failed(failure)
    }
}
