//! Errors of commands, and the exit codes for them.
//!
//! Owns the exit codes: 0 success, 1 failure, 2 invalid arguments or configuration, 75 start again.

use std::fmt;
use std::process::ExitCode;

/// `EX_TEMPFAIL` of sysexits.h: supervisors that tell exit codes apart start the program again.
const RESTART: u8 = 75;

/// Error of a command. Each variant has whole sentences for the user.
#[derive(Debug)]
pub enum Failure {
    /// The command is valid, but it failed.
    Failed(String),
    /// The command can continue if it is started again.
    Restart(String),
    /// The arguments or the configuration are invalid. Each sentence is one problem.
    Misused(Vec<String>),
}

impl Failure {
    /// Returns an error with this sentence.
    pub fn failed(sentence: impl fmt::Display) -> Self {
        Self::Failed(sentence.to_string())
    }

    /// Returns an error about arguments or configuration with this sentence.
    pub fn misused(sentence: impl fmt::Display) -> Self {
        Self::Misused(vec![sentence.to_string()])
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
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
