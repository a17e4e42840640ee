//! A terminal that is drawn upon, and given back as it was.
//!
//! Owns the escape sequences. Must never leave a terminal without its cursor.

use std::fmt::Display;
use std::io::{self, Write};

use console::Term;
use lab::top::view::View;

use super::picture;
use crate::failure::Failure;
use crate::output::Reading;

/// Another page than the one with the shell's history, and no cursor on it.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";

/// Back to the shell's page.
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

/// To the upper left corner.
const HOME: &str = "\x1b[H";

/// Nothing behind this on the line.
const CLEAR_LINE: &str = "\x1b[K";

/// Nothing below this.
const CLEAR_BELOW: &str = "\x1b[J";

/// The terminal on standard output, for as long as this lives.
pub(super) struct Screen {
    term: Term,
    url: String,
    /// What was drawn last, which stays behind on the shell's page.
    last: Vec<String>,
}

impl Screen {
    /// Takes the terminal to show what the server at `url` is at.
    pub(super) fn open(url: &str) -> Result<Self, Failure> {
        let mut screen = Self {
            term: Term::stdout(),
            url: url.to_owned(),
            last: Vec::new(),
        };
        screen.write(OPEN)?;
        screen.say(format_args!("waiting for a second reading"))?;
        Ok(screen)
    }

    /// Draws a view over the one before.
    pub(super) fn draw(&mut self, view: &View) -> Result<Reading, Failure> {
        let (height, _) = self.term.size();
        let rows = picture::rows_that_fit(usize::from(height).saturating_sub(1), view);
        self.last = picture::lines(view, rows);
        let address = format!("{}, looked at every {:.1} s", self.url, view.seconds);
        self.last.insert(0, address);
        self.paint(&self.last.clone())?;
        Ok(Reading::Continue(()))
    }

    /// Shows a sentence above what was drawn last.
    pub(super) fn say(&mut self, sentence: impl Display) -> Result<(), Failure> {
        let mut lines = vec![sentence.to_string()];
        lines.extend(self.last.iter().cloned());
        self.paint(&lines)
    }

    fn paint(&mut self, lines: &[String]) -> Result<(), Failure> {
        let (height, width) = self.term.size();
        let mut text = String::from(HOME);
        for (number, line) in lines.iter().take(usize::from(height)).enumerate() {
            if number > 0 {
                text.push_str("\r\n");
            }
            text.extend(line.chars().take(usize::from(width)));
            text.push_str(CLEAR_LINE);
        }
        text.push_str(CLEAR_BELOW);
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = self
            .term
            .write_all(text.as_bytes())
            .and_then(|()| self.term.flush());
        written.map_err(|error: io::Error| {
            Failure::failed(format_args!("the terminal cannot be written to: {error}"))
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Whoever interrupts may want to look at it a little longer.
        let last: String = self.last.iter().map(|line| format!("{line}\r\n")).collect();
        let _ = self.write(&format!("{CLOSE}{last}"));
    }
}
