//! Main loop of `encke-lab flood`: runs a flood from start to report.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::expect::Expectations;
use super::owed::Judgement;
use super::report::Report;
use super::tally::Totals;
use super::{Flood, Options, driven};
use clap::Args;
use cli::units::duration;
use machine::failure::{Context, Failure, Outcome};
use machine::interrupt::Interrupt;

/// Interval at which stop conditions are checked.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Interval of progress reports.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Conditions that end a flood. It also ends when no client is left.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "End")]
pub struct StopCondition {
    /// End this long after all clients are open [default: run until interrupted]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// End after this many events
    #[arg(id = "count", long, alias = "events", value_name = "N")]
    pub events: Option<u64>,
    /// Events to wait for after the end.
    #[command(flatten)]
    pub owed: OwedOptions,
}

/// Events expected at clients, read at the end from a log of `encke-lab drive`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Coming back")]
pub struct OwedOptions {
    /// File that `encke-lab drive --log` has written by the end of this run: what clients are owed.
    /// The clients are open before the first event, and each is logged in as its number
    #[arg(id = "owed", long = "owed", value_name = "FILE", requires = "resume")]
    pub log: Option<PathBuf>,
    /// Edge list of mutual friendships, one `a b` per line: clients are owed the events about their
    /// friends
    #[arg(long, value_name = "FILE", requires = "owed")]
    pub friends: Option<PathBuf>,
    /// How long the last events that are owed are waited for
    #[arg(
        long, value_name = "TIME", default_value = "30s", requires = "owed",
        value_parser = duration
    )]
    pub patience: Duration,
}

/// Progress of a running flood.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Time since the first connection was begun.
    pub elapsed: Duration,
    /// Whether every client is open or has failed.
    pub settled: bool,
    /// Event rate since the last progress report.
    pub events_per_second: f64,
    /// Totals so far.
    pub totals: Totals,
}

/// Runs a flood until a condition of `until` or an interrupt ends it, and returns the report. Calls
/// `tell` at the start, once a second, and when all clients are open.
///
/// # Errors
///
/// Those of [`Flood::start`].
pub fn run(
    options: &Options,
    until: &StopCondition,
    expectations: &Expectations,
    interrupt: &Interrupt,
    mut tell: impl FnMut(&Flood, &Progress),
) -> Outcome<Report> {
    let mut flood = Flood::start(options)?;
    let begun = Instant::now();
    let mut pace = Pace::default();
    let (mut settled_at, mut next_progress) = (None, Duration::ZERO);
    let interrupted = loop {
        let elapsed = begun.elapsed();
        let counts = flood.counts();
        if settled_at.is_none() && flood.settled() {
            settled_at = Some(elapsed);
            // Events that arrived while clients were connecting do not count for the rate.
            pace = Pace::starting(elapsed, counts.events);
            next_progress = elapsed;
        }
        if elapsed >= next_progress {
            next_progress += PROGRESS_EVERY;
            let progress = Progress {
                elapsed,
                settled: settled_at.is_some(),
                events_per_second: pace.second(elapsed, counts.events),
                totals: flood.totals(),
            };
            tell(&flood, &progress);
        }
        let is_long_enough = until
            .duration
            .zip(settled_at)
            .is_some_and(|(duration, at)| elapsed - at >= duration);
        let has_seen_enough = until.events.is_some_and(|wanted| counts.events >= wanted);
        let no_client_is_left = settled_at.is_some()
            && counts.heads == counts.closes.sum()
            && !options.behaviours.may_open_later()
            && options.recovery.is_none();
        if is_long_enough || has_seen_enough || no_client_is_left {
            break false;
        }
        if !interrupt.sleep(CHECK_EVERY) {
            break true;
        }
    };
    let judgement = match &until.owed.log {
        Some(log) => Some(await_owed_events(
            &flood,
            options,
            log,
            &until.owed,
            interrupt,
        )?),
        None => None,
    };
    let elapsed = begun.elapsed();
    let totals = flood.totals();
    let (mean, best) = pace.finish(elapsed, totals.counts.events);
    let report = Report {
        url: options.name.clone(),
        transport: options.transport.to_string(),
        connections: options.connections,
        plan: flood.explain().to_owned(),
        interrupted,
        seconds: elapsed.as_secs_f64(),
        opening_seconds: settled_at.map(|at| at.as_secs_f64()),
        events_per_second: mean,
        best_events_per_second: best,
        verdicts: expectations.judge(&totals, judgement, options.ids_are_consecutive()),
        judgement,
        totals,
    };
    flood.stop();
    Ok(report)
}

/// Waits until clients have received all events that `log` lists for them, or the patience is over,
/// and judges.
fn await_owed_events(
    flood: &Flood,
    options: &Options,
    log: &Path,
    await_owed: &OwedOptions,
    interrupt: &Interrupt,
) -> Outcome<Judgement> {
    let friends = await_owed.friends.as_ref().map(|path| {
        let file = File::open(path).context(format_args!("opening {}", path.display()))?;
        Ok::<Box<dyn BufRead>, Failure>(Box::new(BufReader::new(file)))
    });
    let owed = driven::owed(options, log, friends.transpose()?)?;
    let until = Instant::now() + await_owed.patience;
    loop {
        let judgement = flood.judge(&owed);
        if judgement.is_exact() || Instant::now() > until || !interrupt.sleep(CHECK_EVERY * 5) {
            return Ok(judgement);
        }
    }
}

/// Event rate since all clients were open.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    begun: Duration,
    events_at_begin: u64,
    last: Duration,
    events_at_last: u64,
    best: f64,
}

impl Pace {
    fn starting(now: Duration, events: u64) -> Self {
        Self {
            begun: now,
            events_at_begin: events,
            last: now,
            events_at_last: events,
            best: 0.0,
        }
    }

    /// Returns the rate since the last call.
    fn second(&mut self, now: Duration, events: u64) -> f64 {
        let rate = rate(events - self.events_at_last, now - self.last);
        // The first interval after opening may be too short to count as a second.
        if now - self.last >= PROGRESS_EVERY / 2 {
            self.best = self.best.max(rate);
        }
        (self.last, self.events_at_last) = (now, events);
        rate
    }

    /// Returns the mean rate and the highest rate of one second.
    fn finish(&self, now: Duration, events: u64) -> (f64, f64) {
        let mean = rate(events - self.events_at_begin, now - self.begun);
        (mean, self.best.max(mean))
    }
}

fn rate(events: u64, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        events as f64 / time.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_measured_since_all_were_open() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::starting(seconds(10), 500);
        assert!((pace.second(seconds(11), 1500) - 1000.0).abs() < 0.1);
        assert!((pace.second(seconds(12), 3500) - 2000.0).abs() < 0.1);
        // A burst within 10 ms does not count as a second.
        pace.second(seconds(12) + Duration::from_millis(10), 4500);
        let (mean, best) = pace.finish(seconds(14), 4500);
        assert!((mean - 1000.0).abs() < 0.1 && (best - 2000.0).abs() < 0.1);
    }
}
