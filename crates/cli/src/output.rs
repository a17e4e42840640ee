//! Standard output. It is a success if its reader closes it, as in `encke listen rj | head`.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

use serde::Serialize;

use crate::failure::Failure;

/// Whether standard output is still open; [`ControlFlow::Break`] if its reader has closed it.
pub type Reading = ControlFlow<()>;

/// Writes one line and flushes it. Breaks if the reader has closed standard output.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn line(text: impl Display) -> Result<Reading, Failure> {
    written(write_line(&mut io::stdout().lock(), &text))
}

/// Writes one line of JSON. Breaks if the reader has closed standard output.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn json(value: &impl Serialize) -> Result<Reading, Failure> {
    line(as_json(value)?)
}

/// Returns a value as one line of JSON.
///
/// # Errors
///
/// When the value has no form in JSON.
pub fn as_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(Failure::failed)
}

/// Writes one line that may contain text of other parties. On a terminal, control characters are
/// escaped, because they could move the cursor, change the title or hide text. Other readers get
/// the line unchanged.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn foreign_line(text: &str) -> Result<Reading, Failure> {
    if io::stdout().is_terminal() {
        line(escaped(text))
    } else {
        line(text)
    }
}

/// Replaces control characters except line feed and tab by `\u` and four hexadecimal digits, as
/// JSON does.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Returns rows as lines whose cells begin in the same columns.
pub fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
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
    fn control_characters_are_escaped_except_line_feed_and_tab() {
        for (text, shown) in [
            ("plain, ü, 🐙\n\tindented", "plain, ü, 🐙\n\tindented"),
            ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
            ("a\rb\x08\x7f\0", "a\\u000db\\u0008\\u007f\\u0000"),
            // C1: a terminal may take U+009B for ESC [.
            ("\u{9b}31m\u{85}", "\\u009b31m\\u0085"),
        ] {
            assert_eq!(escaped(text), shown);
        }
    }

    #[test]
    fn only_a_broken_pipe_ends_quietly() {
        assert!(written(Ok(())).unwrap().is_continue());
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(written(Err(gone)).unwrap().is_break());
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(written(Err(full)).is_err());
    }
}
