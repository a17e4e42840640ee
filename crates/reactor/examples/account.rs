//! Measures what it costs a worker to account for a turn:
//! `cargo run --release -p reactor --example account`.
//!
//! The clock is read in a turn all the same, so that is told apart; but for the turns whose stages
//! are timed, whose readings are counted in. Prints one row of Markdown a metric.

#![expect(clippy::disallowed_methods, reason = "measures how long it takes")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use reactor::{Counters, Timing};

reactor::metrics! {
    /// What a worker counts here: as many stages as a server's, and two system calls.
    enum Metric {
        Time "stage_seconds" ["stage"] "Busy time." {
            StageUnread = "unread", StageSignals = "signals",
            StageAccept = "accept", StageMail = "mail",
            StageDeadlines = "deadlines", StageClosing = "closing",
        }
        Counter "system_calls" ["call"] "System calls." {
            Receives = "recv", Accepts = "accept", Sends = "send",
        }
        Counter "accept_pauses" [] "Pauses of accepting." { AcceptPauses }
    }
}

const STAGES: [Metric; 5] = [
    Metric::StageUnread,
    Metric::StageSignals,
    Metric::StageMail,
    Metric::StageDeadlines,
    Metric::StageClosing,
];

const TURNS: u32 = 5_000_000;

/// A turn of a busy worker: some waiting, one event, and its answer.
const WAITED: Duration = Duration::from_micros(2);
const WORKED: Duration = Duration::from_micros(3);

fn main() {
    let stats = Counters::<Metric, { Metric::ALL.len() }>::default();
    let mut timing = Timing::default();
    let started = Instant::now();
    let mut now = Duration::ZERO;
    let account = nanos_of_each(|| {
        now += WORKED;
        timing.rest(black_box(now), &stats);
        now += WAITED;
        timing.begin(black_box(now), black_box(1), &stats);
        for stage in STAGES {
            timing.passed(stage, || started.elapsed(), &stats);
        }
        stats.add(Metric::Receives, 1);
        stats.add(Metric::Sends, 1);
    });
    let clock = nanos_of_each(|| {
        black_box(started.elapsed());
    });
    println!("| account of a turn | {account:.0} ns | |");
    println!("| a reading of the clock | {clock:.0} ns | |");
}

fn nanos_of_each(mut act: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..TURNS {
        act();
    }
    begun.elapsed().as_nanos() as f64 / f64::from(TURNS)
}
