//! Latency reports: a line a second for each listener and backend.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cli::failure::Failure;
use machine::spread::Spread;
use proxy::tcp::LatencyReport;
use serde::Serialize;

/// Time after the end of a second by which all workers have handed on their counts of it.
const LATE: Duration = Duration::from_millis(500);

type Key = (u64, SocketAddr, String);

/// Starts a thread that prints reports until all workers have ended.
pub(super) fn start(
    reports: Receiver<LatencyReport>,
    json: bool,
) -> Result<JoinHandle<()>, Failure> {
    let thread = thread::Builder::new().name("encke-latency".to_owned());
    let run = move || {
        // An error means that standard output was closed, so there is nothing more to print.
        let _ = report(&reports, json, &mut io::stdout());
    };
    thread.spawn(run).map_err(|error| {
        Failure::failed(format_args!(
            "the thread that prints latency cannot be started: {error}"
        ))
    })
}

fn report(reports: &Receiver<LatencyReport>, json: bool, out: &mut impl Write) -> io::Result<()> {
    let mut waiting: BTreeMap<Key, LatencyReport> = BTreeMap::new();
    let mut lines = 0_u64;
    loop {
        let received = match waiting.is_empty() {
            true => reports.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => reports.recv_timeout(LATE),
        };
        let over = match received {
            Ok(report) => {
                let key = (report.unix_seconds, report.listener, report.backend.clone());
                match waiting.get_mut(&key) {
                    Some(known) => known.micros += report.micros,
                    None => drop(waiting.insert(key, report)),
                }
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let ready = (now.saturating_sub(LATE)).as_secs();
        while let Some(entry) = waiting.first_entry()
            && (over || entry.key().0 < ready)
        {
            let report = entry.remove();
            Line::of(&report).write(json, lines, out)?;
            lines += 1;
        }
        out.flush()?;
        if over {
            return Ok(());
        }
    }
}

/// Lines after which the titles of the columns are repeated.
const LINES_PER_TITLE: u64 = 25;

/// One second of one listener and backend. Times are in microseconds.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: u64,
    listener: SocketAddr,
    backend: &'a str,
    count: u64,
    min: u64,
    mean: f64,
    stdev: f64,
    p50: u64,
    p95: u64,
    /// Mean of the fastest 95 % of the requests.
    p95_mean: f64,
    p95_stdev: f64,
    p99: u64,
    p99_mean: f64,
    p99_stdev: f64,
    max: u64,
}

/// Titles of the columns of text, in the order of the fields after `backend`.
const TITLES: [&str; 12] = [
    "count", "min us", "mean", "stdev", "p50", "p95", "95 mean", "95 std", "p99", "99 mean",
    "99 std", "max",
];

impl<'a> Line<'a> {
    fn of(report: &'a LatencyReport) -> Self {
        let micros = &report.micros;
        let values = micros.iter_recorded().map(|step| {
            let value = micros.median_equivalent(step.value_iterated_to());
            (value, step.count_at_value())
        });
        let values: Vec<_> = values.collect();
        let fastest = |share| rounded(Spread::of_fastest(&values, share));
        let (all, p95, p99) = (fastest(1.0), fastest(0.95), fastest(0.99));
        Self {
            time: report.unix_seconds,
            listener: report.listener,
            backend: &report.backend,
            count: micros.len(),
            min: micros.min(),
            mean: all.mean,
            stdev: all.stdev,
            p50: micros.value_at_quantile(0.5),
            p95: micros.value_at_quantile(0.95),
            p95_mean: p95.mean,
            p95_stdev: p95.stdev,
            p99: micros.value_at_quantile(0.99),
            p99_mean: p99.mean,
            p99_stdev: p99.stdev,
            max: micros.max(),
        }
    }

    fn write(&self, json: bool, lines: u64, out: &mut impl Write) -> io::Result<()> {
        if json {
            return writeln!(out, "{}", serde_json::to_string(self)?);
        }
        if lines.is_multiple_of(LINES_PER_TITLE) {
            write!(out, "{:<11} {:<21} {:<21}", "time", "listener", "backend")?;
            for title in TITLES {
                write!(out, " {title:>8}")?;
            }
            writeln!(out)?;
        }
        write!(
            out,
            "{:<11} {:<21} {:<21}",
            self.time,
            self.listener.to_string(),
            self.backend
        )?;
        write!(
            out,
            " {:>8} {:>8} {:>8.1} {:>8.1}",
            self.count, self.min, self.mean, self.stdev
        )?;
        write!(out, " {:>8}", self.p50)?;
        write!(
            out,
            " {:>8} {:>8.1} {:>8.1}",
            self.p95, self.p95_mean, self.p95_stdev
        )?;
        write!(
            out,
            " {:>8} {:>8.1} {:>8.1}",
            self.p99, self.p99_mean, self.p99_stdev
        )?;
        writeln!(out, " {:>8}", self.max)
    }
}

/// Rounds to tenths, because the histogram has a precision of two digits.
fn rounded(spread: Spread) -> Spread {
    let tenths = |value: f64| (value * 10.0).round() / 10.0;
    Spread {
        mean: tenths(spread.mean),
        stdev: tenths(spread.stdev),
    }
}
