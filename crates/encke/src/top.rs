//! `encke top`: what a running server is at, as a picture, as tables or as JSON.

/// What happened as lines of text.
mod picture;
/// A terminal that is drawn upon.
mod screen;

use std::io::{self, IsTerminal};
use std::time::Instant;

use lab::interrupt::Interrupt;
use lab::top::view::View;
use lab::top::{Look, Watch};

use crate::arguments::TopArguments;
use crate::failure::Failure;
use crate::output::{self, Reading};

use screen::Screen;

/// Looks at the server until somebody interrupts or nobody reads, or once.
pub(crate) fn run(arguments: &TopArguments) -> Result<(), Failure> {
    let mut watch = Watch::new(arguments.control.client()?);
    let interrupt = Interrupt::catch()?;
    // A server that cannot be looked at in the beginning is rather a wrong address or token than one
    // that comes back.
    watch.look()?;
    let live = !arguments.once && !arguments.report.json && io::stdout().is_terminal();
    let mut shown = if live {
        Shown::Screen(Screen::open(&arguments.control.control)?)
    } else {
        Shown::Lines {
            json: arguments.report.json,
        }
    };
    let mut gone = false;
    let mut next = Instant::now() + arguments.every;
    while interrupt.sleep_until(next) {
        // Readings that were missed are left out.
        next = (next + arguments.every).max(Instant::now());
        match watch.look() {
            Ok(Look::View(view)) => {
                gone = false;
                if shown.view(&view)?.is_break() || arguments.once {
                    break;
                }
            }
            Ok(Look::First) if arguments.once => {
                return Err(Failure::failed(
                    "the server was started anew between two readings; try again",
                ));
            }
            Ok(Look::First) => {}
            Err(failure) if arguments.once => return Err(failure.into()),
            Err(failure) => {
                if !std::mem::replace(&mut gone, true) {
                    shown.gone(&failure)?;
                }
            }
        }
    }
    Ok(())
}

/// Where views go.
enum Shown {
    /// Each over the one before.
    Screen(Screen),
    /// One behind the other.
    Lines {
        /// As an object a line, or as tables.
        json: bool,
    },
}

impl Shown {
    fn view(&mut self, view: &View) -> Result<Reading, Failure> {
        match self {
            Self::Screen(screen) => screen.draw(view),
            Self::Lines { json: true } => output::json(view),
            Self::Lines { json: false } => {
                let lines = picture::lines(view, view.workers.len());
                output::line(format_args!("{}\n", lines.join("\n")))
            }
        }
    }

    /// The server does not answer.
    fn gone(&mut self, failure: &impl std::fmt::Display) -> Result<(), Failure> {
        match self {
            Self::Screen(screen) => screen.say(format_args!("{failure}; trying again")),
            Self::Lines { .. } => {
                eprintln!("{failure}; trying again");
                Ok(())
            }
        }
    }
}
