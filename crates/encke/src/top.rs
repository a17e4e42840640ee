//! `encke top`: what a running server is at, as a picture, as tables or as JSON.

/// What happened as lines of text.
mod picture;
/// A terminal that is drawn upon.
mod screen;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use client::top::view::View;
use client::top::{Monitor, Sample};
use machine::failure::Outcome;
use machine::interrupt::Interrupt;

use crate::arguments::TopArguments;
use crate::failure::Failure;
use crate::output::{self, Reading};

use screen::Screen;

/// What the one that shows is told.
enum News {
    /// Somebody has looked at the server.
    Looked(Outcome<Sample>),
    /// Somebody wants to end.
    Interrupted,
}

/// Looks at the server until somebody interrupts or nobody reads, or once.
pub(crate) fn run(arguments: &TopArguments) -> Result<(), Failure> {
    let mut watch = Monitor::new(arguments.control.client()?);
    // A server that cannot be looked at in the beginning is rather a wrong address or token than one
    // that comes back.
    watch.sample()?;
    let news = listen(watch, arguments.every)?;
    let live = !arguments.once && !arguments.report.json && io::stdout().is_terminal();
    let mut shown = if live {
        Shown::Screen(Screen::open(&arguments.control.control)?)
    } else {
        Shown::Lines {
            json: arguments.report.json,
        }
    };
    let mut gone = false;
    for news in news {
        match news {
            News::Interrupted => break,
            News::Looked(Ok(Sample::View(view))) => {
                gone = false;
                if shown.view(&view)?.is_break() || arguments.once {
                    break;
                }
            }
            News::Looked(Ok(Sample::First)) if arguments.once => {
                return Err(Failure::failed(
                    "the server was started anew between two readings; try again",
                ));
            }
            News::Looked(Ok(Sample::First)) => {}
            News::Looked(Err(failure)) if arguments.once => return Err(failure.into()),
            News::Looked(Err(failure)) => {
                if !std::mem::replace(&mut gone, true) {
                    shown.gone(&failure)?;
                }
            }
        }
    }
    Ok(())
}

/// Looks at the server on a thread of its own: one that does not answer must not keep a person from
/// ending.
fn listen(watch: Monitor, every: Duration) -> Result<Receiver<News>, Failure> {
    let (sender, news) = sync_channel(1);
    let interrupt = Interrupt::catch()?;
    let interrupted = sender.clone();
    let spawn = |name: &str, task: Box<dyn FnOnce() + Send>| {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(task);
        thread.map(drop).map_err(|error| {
            Failure::failed(format_args!("the thread {name} cannot be made: {error}"))
        })
    };
    spawn("top-look", Box::new(move || look(watch, every, &sender)))?;
    spawn(
        "top-end",
        Box::new(move || {
            while interrupt.sleep(Duration::from_secs(3600)) {}
            let _ = interrupted.send(News::Interrupted);
        }),
    )?;
    Ok(news)
}

/// Looks at the server again and again, as long as somebody wants to know.
fn look(mut watch: Monitor, every: Duration, told: &SyncSender<News>) {
    let mut next = Instant::now() + every;
    loop {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        // Looks that were missed are left out.
        next = (next + every).max(Instant::now());
        if told.send(News::Looked(watch.sample())).is_err() {
            return;
        }
    }
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
            Self::Screen(screen) => screen.draw(view).map(Reading::Continue),
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
