//! A flood controlled by commands on its input. The benchmarks run it in a separate process, so
//! that its CPU time is not counted as the server's.
//!
//! Each command is one line, answered by one line of JSON:
//!
//! - `stats`: the totals
//! - `await open SECONDS`: the totals once every client is open or has failed
//! - `await events COUNT SECONDS`: the totals once that many events have come
//! - `await quiet MILLIS SECONDS`: the totals once no byte has come for MILLIS
//! - `owed LOG SECONDS`: waits until every client has received exactly the events that the log of
//!   `encke-lab drive` lists for it, then answers the totals and the judgement
//! - `forget`: clears the recorded latencies
//! - `quit`, or the end of the input: closes everything

use std::io::{BufRead, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::owed::{Judgement, Owed};
use super::tally::Totals;
use super::{Flood, Options};
use crate::published::Published;
use machine::clock::monotonic_nanos;
use machine::failure::{Context, Outcome};

/// Interval at which counters are read while waiting. A benchmark round is about a hundred times
/// longer.
const POLL_EVERY: Duration = Duration::from_millis(1);

/// Interval of judgements while waiting. Judging a million clients takes some milliseconds.
const JUDGE_EVERY: Duration = Duration::from_millis(100);

/// Answer to a command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the awaited state was reached in time.
    pub reached: bool,
    /// Monotonic clock at the time of the answer, in nanoseconds.
    pub at_nanos: u64,
    /// Seconds since the clients began to connect.
    pub seconds: f64,
    /// Result of `owed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// Totals over all clients.
    #[serde(flatten)]
    pub totals: Totals,
}

/// Opens the flood and executes the commands in `input` until it ends. `friends` opens the edge
/// list of the clients' friendships, if there is one.
///
/// # Errors
///
/// Those of [`Flood::start`], and when `input` cannot be read or `output` cannot be written.
pub fn run(
    options: &Options,
    mut friends: Option<impl FnMut() -> Outcome<Box<dyn BufRead>>>,
    input: impl BufRead,
    mut output: impl Write,
) -> Outcome<()> {
    let begun = Instant::now();
    let mut flood = Flood::start(options)?;
    for line in input.lines() {
        let line = line.context("reading a command")?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse().ok());
        let mut judgement = None;
        let reached = match words.first().copied() {
            Some("stats") => true,
            Some("forget") => {
                flood.forget_latencies();
                true
            }
            Some("await") => match (words.get(1).copied(), number(2), number(3)) {
                (Some("open"), Some(seconds), None) => wait(seconds, || flood.settled()),
                (Some("events"), Some(count), Some(seconds)) => {
                    wait(seconds, || flood.counts().events >= count)
                }
                (Some("quiet"), Some(millis), Some(seconds)) => quiet(&flood, millis, seconds),
                _ => false,
            },
            Some("owed") => {
                let log = Path::new(words.get(1).copied().unwrap_or_default());
                let friends = friends.as_mut().map(|friends| friends()).transpose()?;
                let owed = owed(options, log, friends)?;
                let reached = wait_by(JUDGE_EVERY, number(2).unwrap_or(0), || {
                    flood.judge(&owed).is_exact()
                });
                judgement = Some(flood.judge(&owed));
                reached
            }
            Some("quit") => break,
            _ => false,
        };
        let answer = Answer {
            reached,
            at_nanos: monotonic_nanos(),
            seconds: begun.elapsed().as_secs_f64(),
            judgement,
            totals: flood.totals(),
        };
        let text = serde_json::to_string(&answer).context("writing an answer")?;
        writeln!(output, "{text}")
            .and_then(|()| output.flush())
            .context("writing an answer")?;
    }
    flood.stop();
    Ok(())
}

/// Reads the events expected at each client from a log of `encke-lab drive`.
///
/// # Errors
///
/// When the log or the friends cannot be read.
pub fn owed(options: &Options, log: &Path, friends: Option<Box<dyn BufRead>>) -> Outcome<Owed> {
    let published = Published::read(log)?;
    Owed::new(&published, options.first, options.connections, friends)
}

fn wait(seconds: u64, done: impl FnMut() -> bool) -> bool {
    wait_by(POLL_EVERY, seconds, done)
}

fn wait_by(pause: Duration, seconds: u64, mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(seconds);
    while !done() {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(pause);
    }
    true
}

fn quiet(flood: &Flood, millis: u64, seconds: u64) -> bool {
    let (mut last, mut since) = (flood.counts().bytes, Instant::now());
    wait(seconds, || {
        let bytes = flood.counts().bytes;
        if bytes != last {
            (last, since) = (bytes, Instant::now());
        }
        since.elapsed() >= Duration::from_millis(millis)
    })
}
