//! Standard output, whose reader may go away: `encke listen rj | head` is a success.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::ControlFlow;

use serde::Serialize;

use crate::failure::Failure;

/// Whether the reader of standard output is still there.
pub(crate) type Reading = ControlFlow<()>;

/// Writes one line and hands it over at once. Breaks when the reader has gone.
pub(crate) fn line(text: impl Display) -> Result<Reading, Failure> {
    written(write_line(&mut io::stdout().lock(), &text))
}

/// Writes one line of JSON. Breaks when the reader has gone.
pub(crate) fn json(value: &impl Serialize) -> Result<Reading, Failure> {
    line(as_json(value)?)
}

/// A value as one line of JSON.
pub(crate) fn as_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(Failure::failed)
}

fn write_line(out: &mut impl Write, text: &impl Display) -> io::Result<()> {
    writeln!(out, "{text}")?;
    out.flush()
}

fn written(result: io::Result<()>) -> Result<Reading, Failure> {
    match result {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::failed(format_args!(
            "cannot write to standard output: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_broken_pipe_ends_quietly() {
        assert!(written(Ok(())).unwrap().is_continue());
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(written(Err(gone)).unwrap().is_break());
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(written(Err(full)).is_err());
    }
}
