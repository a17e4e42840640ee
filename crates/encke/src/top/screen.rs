//! A terminal that is drawn upon, and given back as it was.
//!
//! Owns the escape sequences. Must never leave a terminal without its cursor.

use std::fmt::Display;
use std::io::Write;

use client::top::view::View;
use console::Term;

use super::picture;
use crate::failure::Failure;

/// Another page than the one with the shell's history, no cursor on it, and lines that end at its edge.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";

/// Back to the shell's page.
const CLOSE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

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
        write(&mut screen.term, OPEN)?;
        screen.say(format_args!("waiting for a second reading"))?;
        Ok(screen)
    }

    /// Draws a view over the one before.
    pub(super) fn draw(&mut self, view: &View) -> Result<(), Failure> {
        let (height, _) = self.term.size();
        let rows = picture::rows_that_fit(usize::from(height).saturating_sub(1), view);
        self.last = picture::lines(view, rows);
        let address = format!("{}, looked at every {:.1} s", self.url, view.seconds);
        self.last.insert(0, address);
        paint(&mut self.term, &self.last)
    }

    /// Shows a sentence above what was drawn last.
    pub(super) fn say(&mut self, sentence: impl Display) -> Result<(), Failure> {
        let mut lines = vec![sentence.to_string()];
        lines.extend(self.last.iter().cloned());
        paint(&mut self.term, &lines)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Whoever interrupts may want to look at it a little longer.
        let last: String = self.last.iter().map(|line| format!("{line}\r\n")).collect();
        let _ = write(&mut self.term, &format!("{CLOSE}{last}"));
    }
}

/// Draws lines over whatever is there, as far as there is room.
fn paint(term: &mut Term, lines: &[String]) -> Result<(), Failure> {
    let (height, width) = term.size();
    let mut text = String::from(HOME);
    for (number, line) in lines.iter().take(usize::from(height)).enumerate() {
        if number > 0 {
            text.push_str("\r\n");
        }
        text.extend(line.chars().take(usize::from(width)));
        text.push_str(CLEAR_LINE);
    }
    text.push_str(CLEAR_BELOW);
    write(term, &text)
}

fn write(term: &mut Term, text: &str) -> Result<(), Failure> {
    let written = term.write_all(text.as_bytes()).and_then(|()| term.flush());
    written.map_err(|error| {
        Failure::failed(format_args!("the terminal cannot be written to: {error}"))
    })
}
