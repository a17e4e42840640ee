//! `encke top`: shows the rates of a running server, on a terminal, as tables or as JSON.

/// A view as lines of text.
mod picture;
/// The content of the terminal, and the actions of keys.
mod display;
/// The terminal.
mod screen;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::output::{self, Reading};
use cli::units;
use client::top::view::View;
use client::top::{Monitor, Sample};
use crossterm::event::Event as TerminalEvent;
use machine::failure::Outcome;
use machine::interrupt::Interrupt;

use display::{Display, Interval};
use picture::Workers;
use screen::Screen;

pub(crate) const HELP: &str = "\
Shows for each worker of a running server: busy time by stage, polls and the number of events of
each, system calls, connections, bytes, and what waits in its mailbox and for full sockets; and the
slowest readers. Of a cluster it shows each node, with its state, lag and load, and their sums.
`encke-proxy tcp` and `encke-proxy hello`, if started with --control, show those of these values
that they have; a proxy also shows its backends, hello its requests. Rates are over the time
between two readings of /v1/stats. If the program goes away, the command waits for it.

On a terminal the screen is redrawn: q quits, the arrows and PgUp and PgDn scroll the workers, Space
pauses, + and - change the interval, and ? shows these keys. Elsewhere one table follows another
until Ctrl-C.

Examples:
  encke top
  encke top --control http://127.0.0.1:9001        # of `encke-proxy tcp --control 127.0.0.1:9001`
  encke top --every 5s --control http://10.0.0.7:8001 --control-token-file token
  encke top --once --json";

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// Time between two readings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = pause)]
    pub(crate) every: Duration,
    /// Take two readings, print what happened in between, and exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Parses the time between samples. The server reports its time in milliseconds.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = units::duration(text)?;
    if pause < Duration::from_millis(100) {
        return Err("readings cannot be closer than 100ms".to_owned());
    }
    Ok(pause)
}

/// Time within which a new interval takes effect.
const INTERVAL_CHECK: Duration = Duration::from_millis(100);

/// Input of the loop in [`run`].
enum Event {
    /// A sample of the server, or why there is none.
    Sampled(Outcome<Sample>),
    /// A key, or a new size of the terminal.
    Terminal(TerminalEvent),
    /// A signal that ends the command.
    Interrupted,
}

/// Shows the server until the user or a signal ends the command or standard output is closed. With
/// `--once`, shows it once.
pub(crate) fn run(arguments: &TopArguments) -> Result<(), Failure> {
    let mut watch = Monitor::new(arguments.control.client()?);
    // An error of the first sample ends the command: most likely the address or the token is wrong.
    watch.sample()?;
    let live = !arguments.once && !arguments.report.json && io::stdout().is_terminal();
    let interval = Interval::new(arguments.every);
    let events = start_threads(watch, &interval, live)?;
    let mut shown = if live {
        let display = Display::new(&arguments.control.control, interval);
        Shown::Screen(Box::new(Screen::open(display)?))
    } else {
        Shown::Lines {
            json: arguments.report.json,
        }
    };
    let mut gone = false;
    for event in events {
        match event {
            Event::Interrupted => break,
            Event::Terminal(event) => {
                if shown.terminal(&event)?.is_break() {
                    break;
                }
            }
            Event::Sampled(Ok(Sample::View(view))) => {
                gone = false;
                if shown.view(view)?.is_break() || arguments.once {
                    break;
                }
            }
            Event::Sampled(Ok(Sample::First)) if arguments.once => {
                return Err(Failure::failed(
                    "the server was restarted between two samples; try again",
                ));
            }
            Event::Sampled(Ok(Sample::First)) => {}
            Event::Sampled(Err(failure)) if arguments.once => return Err(failure.into()),
            Event::Sampled(Err(failure)) => {
                if !std::mem::replace(&mut gone, true) {
                    shown.gone(&failure)?;
                }
            }
        }
    }
    Ok(())
}

/// Starts threads for samples, signals and keys, so that the user can end the command while the
/// server does not answer.
fn start_threads(
    watch: Monitor,
    interval: &Interval,
    live: bool,
) -> Result<Receiver<Event>, Failure> {
    let (sender, events) = sync_channel(1);
    // A second signal ends the process at once, after the terminal is restored.
    let interrupt = match live {
        true => Interrupt::catch_with_cleanup(screen::give_back)?,
        false => Interrupt::catch()?,
    };
    let spawn = |name: &str, task: Box<dyn FnOnce() + Send>| {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(task);
        thread.map(drop).map_err(|error| {
            Failure::failed(format_args!("the thread {name} cannot be started: {error}"))
        })
    };
    let (samples, interval) = (sender.clone(), interval.clone());
    spawn(
        "top-sample",
        Box::new(move || sample_repeatedly(watch, &interval, &samples)),
    )?;
    let interrupted = sender.clone();
    spawn(
        "top-end",
        Box::new(move || {
            while interrupt.sleep(Duration::from_secs(3600)) {}
            let _ = interrupted.send(Event::Interrupted);
        }),
    )?;
    if live {
        spawn("top-keys", Box::new(move || read_keys(&sender)))?;
    }
    Ok(events)
}

/// Samples the server at the interval until the receiver is dropped.
fn sample_repeatedly(mut watch: Monitor, interval: &Interval, samples: &SyncSender<Event>) {
    let mut last = Instant::now();
    loop {
        // The interval may be shortened meanwhile.
        while let Some(left) = interval.get().checked_sub(last.elapsed()) {
            thread::sleep(left.min(INTERVAL_CHECK));
        }
        // Missed samples are not made up for.
        last = (last + interval.get()).max(Instant::now() - interval.get());
        if samples.send(Event::Sampled(watch.sample())).is_err() {
            return;
        }
    }
}

/// Forwards events of the terminal until it is closed or the receiver is dropped.
fn read_keys(events: &SyncSender<Event>) {
    while let Ok(event) = crossterm::event::read() {
        if events.send(Event::Terminal(event)).is_err() {
            return;
        }
    }
}

/// Output of views.
enum Shown {
    /// A terminal, where each view replaces the one before.
    Screen(Box<Screen>),
    /// Standard output, to which views are appended.
    Lines {
        /// Whether to print each view as a line of JSON, and not as tables.
        json: bool,
    },
}

impl Shown {
    fn view(&mut self, view: Box<View>) -> Result<Reading, Failure> {
        match self {
            Self::Screen(screen) => screen.view(view).map(Reading::Continue),
            Self::Lines { json: true } => output::json(&view),
            Self::Lines { json: false } => {
                let lines = picture::lines(&view, Workers::Busiest(view.workers.len()));
                output::line(format_args!("{}\n", lines.join("\n")))
            }
        }
    }

    /// Handles an event of the terminal. Breaks when the user ends the command.
    fn terminal(&mut self, event: &TerminalEvent) -> Result<Reading, Failure> {
        match self {
            Self::Screen(screen) => screen.terminal(event),
            Self::Lines { .. } => Ok(Reading::Continue(())),
        }
    }

    /// Shows that the server does not answer.
    fn gone(&mut self, failure: &impl std::fmt::Display) -> Result<(), Failure> {
        match self {
            Self::Screen(screen) => screen.say(format!("{failure}; trying again")),
            Self::Lines { .. } => {
                eprintln!("{failure}; trying again");
                Ok(())
            }
        }
    }
}
