//! A flood from start to report: the loop of `encke flood`, and of whoever wants the same.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::expect::Expectations;
use super::owed::Judgement;
use super::report::Report;
use super::tally::Totals;
use super::{Flood, Options, driven};
use machine::failure::{Context, Failure, Outcome};
use machine::interrupt::Interrupt;

/// Pause between two looks at whether it is time to end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often there is news.
const NEWS_EVERY: Duration = Duration::from_secs(1);

/// When a flood ends by itself. Whatever else, it ends when nobody is left.
#[derive(Debug, Clone, Default)]
pub struct StopCondition {
    /// So long after every client is open or has failed.
    pub duration: Option<Duration>,
    /// When so many events have come.
    pub events: Option<u64>,
    /// Once clients have got what they are owed, but no later than this after the end.
    pub owed: Option<AwaitOwed>,
}

/// What clients are owed, which is known at the end: a log of `encke drive`.
#[derive(Debug, Clone)]
pub struct AwaitOwed {
    /// The log.
    pub log: PathBuf,
    /// An edge list of mutual friendships.
    pub friends: Option<PathBuf>,
    /// How long the last events are waited for.
    pub patience: Duration,
}

/// What there is to tell.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Since the first client was begun.
    pub elapsed: Duration,
    /// Whether every client is open or has failed.
    pub settled: bool,
    /// Since the news before.
    pub events_per_second: f64,
    /// All up to now.
    pub totals: Totals,
}

/// Opens the flood, keeps it until it is over or somebody interrupts, and reports. `tell` is
/// called at the start, once a second, and when all clients are open.
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
    let (mut settled_at, mut next_news) = (None, Duration::ZERO);
    let interrupted = loop {
        let elapsed = begun.elapsed();
        let counts = flood.counts();
        if settled_at.is_none() && flood.settled() {
            settled_at = Some(elapsed);
            // What came while clients were connecting says nothing of a rate.
            pace = Pace::starting(elapsed, counts.events);
            next_news = elapsed;
        }
        if elapsed >= next_news {
            next_news += NEWS_EVERY;
            let news = Progress {
                elapsed,
                settled: settled_at.is_some(),
                events_per_second: pace.second(elapsed, counts.events),
                totals: flood.totals(),
            };
            tell(&flood, &news);
        }
        let is_long_enough = until
            .duration
            .zip(settled_at)
            .is_some_and(|(duration, at)| elapsed - at >= duration);
        let has_seen_enough = until.events.is_some_and(|wanted| counts.events >= wanted);
        let nobody_is_left = settled_at.is_some()
            && counts.heads == counts.closes.sum()
            && !options.behaviours.come_again()
            && options.recovery.is_none();
        if is_long_enough || has_seen_enough || nobody_is_left {
            break false;
        }
        if !interrupt.sleep(LOOK_EVERY) {
            break true;
        }
    };
    let judgement = match &until.owed {
        Some(owed) => Some(settle(&flood, options, owed, interrupt)?),
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

/// Waits until clients have got what they are owed, and judges.
fn settle(
    flood: &Flood,
    options: &Options,
    await_owed: &AwaitOwed,
    interrupt: &Interrupt,
) -> Outcome<Judgement> {
    let friends = await_owed.friends.as_ref().map(|path| {
        let file = File::open(path).context(format_args!("opening {}", path.display()))?;
        Ok::<Box<dyn BufRead>, Failure>(Box::new(BufReader::new(file)))
    });
    let owed = driven::owed(options, &await_owed.log, friends.transpose()?)?;
    let until = Instant::now() + await_owed.patience;
    loop {
        let judgement = flood.judge(&owed);
        if judgement.is_exact() || Instant::now() > until || !interrupt.sleep(LOOK_EVERY * 5) {
            return Ok(judgement);
        }
    }
}

/// Events a second, since all clients were open.
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

    /// The rate since the last second.
    fn second(&mut self, now: Duration, events: u64) -> f64 {
        let rate = rate(events - self.events_at_last, now - self.last);
        // The first piece of a second after opening is too short to be a record.
        if now - self.last >= NEWS_EVERY / 2 {
            self.best = self.best.max(rate);
        }
        (self.last, self.events_at_last) = (now, events);
        rate
    }

    /// The mean and the best second.
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
    fn a_pace_is_measured_since_all_were_open() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::starting(seconds(10), 500);
        assert!((pace.second(seconds(11), 1500) - 1000.0).abs() < 0.1);
        assert!((pace.second(seconds(12), 3500) - 2000.0).abs() < 0.1);
        // A moment's burst is no second.
        pace.second(seconds(12) + Duration::from_millis(10), 4500);
        let (mean, best) = pace.finish(seconds(14), 4500);
        assert!((mean - 1000.0).abs() < 0.1 && (best - 2000.0).abs() < 0.1);
    }
}
