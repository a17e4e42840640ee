//! The terminal of `encke top`: taken, drawn on, and given back as it was.
//!
//! Owns raw mode and the alternate screen. Must never leave a terminal without its cursor: it is
//! given back on drop, on a panic and on a second signal.

use std::io::{self, Stdout, stdout};
use std::ops::ControlFlow;
use std::panic;

use client::top::view::View;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::Event;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::display::Display;
use crate::failure::Failure;
use crate::output::Reading;

/// The terminal on standard output, for as long as this lives.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    display: Display,
}

impl Screen {
    /// Takes the terminal and shows `display`.
    pub(super) fn open(display: Display) -> Result<Self, Failure> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |why| {
            give_back();
            before(why);
        }));
        // Where the keyboard belongs to something else there are no keys, and signals end it.
        let _ = enable_raw_mode();
        execute!(stdout(), EnterAlternateScreen, Hide).map_err(unusable)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(unusable)?;
        let mut screen = Self { terminal, display };
        screen.draw()?;
        Ok(screen)
    }

    /// Shows a view.
    pub(super) fn view(&mut self, view: Box<View>) -> Result<(), Failure> {
        self.display.set_view(view);
        self.draw()
    }

    /// Shows a sentence above the last view.
    pub(super) fn say(&mut self, sentence: String) -> Result<(), Failure> {
        self.display.set_notice(sentence);
        self.draw()
    }

    /// Reacts to a key or another size. Breaks when the user ends the command.
    pub(super) fn terminal(&mut self, event: &Event) -> Result<Reading, Failure> {
        if let Some(key) = event.as_key_press_event()
            && self.display.press(key).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        self.draw().map(ControlFlow::Continue)
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let drawn = self.terminal.draw(|frame| self.display.render(frame));
        drawn.map(drop).map_err(unusable)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Else `Terminal` shows it once more, behind what follows.
        let _ = self.terminal.show_cursor();
        give_back();
        // What was shown last stays on the shell's page.
        for line in self.display.last_lines() {
            println!("{line}");
        }
    }
}

/// Gives the terminal back as it was, whether or not it was taken.
pub(super) fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

fn unusable(error: io::Error) -> Failure {
    Failure::failed(format_args!("the terminal cannot be used: {error}"))
}
