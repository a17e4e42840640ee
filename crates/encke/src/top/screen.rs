//! The terminal of `encke top`.
//!
//! Owns raw mode and the alternate screen. Must never leave a terminal without its cursor: the
//! terminal is restored on drop, on a panic and on a second signal.

use std::io::{self, BufWriter, Write, stdout};
use std::ops::ControlFlow;
use std::panic;

use cli::failure::Failure;
use cli::output::Reading;
use client::top::view::View;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::Event;
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue, terminal};

use super::display::Display;

/// The terminal on standard output, which is restored when this is dropped.
pub(super) struct Screen {
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
        execute!(stdout(), EnterAlternateScreen, DisableLineWrap, Hide).map_err(unusable)?;
        let mut screen = Self { display };
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
        let (width, height) = terminal::size().map_err(unusable)?;
        let lines = self.display.render(width.into(), height.into());
        let drawn = || -> io::Result<()> {
            let mut out = BufWriter::new(stdout().lock());
            for (row, (text, attribute)) in (0..).zip(lines) {
                queue!(out, MoveTo(0, row), SetAttribute(attribute), Print(text))?;
                queue!(
                    out,
                    SetAttribute(Attribute::Reset),
                    Clear(ClearType::UntilNewLine)
                )?;
            }
            out.flush()
        };
        drawn().map_err(unusable)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
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
    let _ = execute!(stdout(), EnableLineWrap, LeaveAlternateScreen, Show);
}

fn unusable(error: io::Error) -> Failure {
    Failure::failed(format_args!("the terminal cannot be used: {error}"))
}
