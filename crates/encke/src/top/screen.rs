//! The terminal of `encke top`.
//!
//! Owns raw mode and the alternate screen. Must never leave a terminal without its cursor: the
//! terminal is restored on drop, on a panic and on a second signal.

use std::io::{self, Stdout, stdout};
use std::ops::ControlFlow;
use std::panic;

use cli::failure::Failure;
use cli::output::Reading;
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

/// The terminal on standard output, which is restored when this is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    display: Display,
}

impl Screen {
    /// Sets the terminal up and shows `display`.
    pub(super) fn open(display: Display) -> Result<Self, Failure> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |why| {
            give_back();
            before(why);
        }));
        // Without a keyboard there are no keys, and signals end the command.
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

    /// Shows a notice above the last view.
    pub(super) fn say(&mut self, sentence: String) -> Result<(), Failure> {
        self.display.set_notice(sentence);
        self.draw()
    }

    /// Handles a key or a new size. Breaks when the user ends the command.
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
        // Otherwise `Terminal` would do this when it is dropped, after the output below.
        let _ = self.terminal.show_cursor();
        give_back();
        // The last picture stays visible in the shell.
        for line in self.display.last_lines() {
            println!("{line}");
        }
    }
}

/// Restores the terminal. Does no harm if it was not set up.
pub(super) fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

fn unusable(error: io::Error) -> Failure {
    Failure::failed(format_args!("the terminal cannot be used: {error}"))
}
