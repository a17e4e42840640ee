//! Latency as it is reported: a line a second for each listener and backend.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::proxy::tcp::LatencyReport;
use serde::Serialize;

use crate::failure::Failure;

/// Workers hand on a second when the next has begun; by now all have.
const LATE: Duration = Duration::from_millis(500);

type Key = (u64, SocketAddr, String);

/// Reports on a thread of its own, until all workers have ended.
pub(super) fn start(
    reports: Receiver<LatencyReport>,
    json: bool,
) -> Result<JoinHandle<()>, Failure> {
    let thread = thread::Builder::new().name("encke-latency".to_owned());
    let run = move || {
        // Nobody reads any more: nothing is to be reported.
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

/// Lines after which the columns are named again.
const LINES_PER_TITLE: u64 = 25;

/// One second of one listener and backend. Times are microseconds.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: u64,
    listener: SocketAddr,
    backend: &'a str,
    count: u64,
    mean: f64,
    p50: u64,
    p95: u64,
    p99: u64,
    max: u64,
}

impl<'a> Line<'a> {
    fn of(report: &'a LatencyReport) -> Self {
        let micros = &report.micros;
        Self {
            time: report.unix_seconds,
            listener: report.listener,
            backend: &report.backend,
            count: micros.len(),
            mean: (micros.mean() * 10.0).round() / 10.0,
            p50: micros.value_at_quantile(0.5),
            p95: micros.value_at_quantile(0.95),
            p99: micros.value_at_quantile(0.99),
            max: micros.max(),
        }
    }

    fn write(&self, json: bool, lines: u64, out: &mut impl Write) -> io::Result<()> {
        if json {
            return writeln!(out, "{}", serde_json::to_string(self)?);
        }
        if lines.is_multiple_of(LINES_PER_TITLE) {
            writeln!(
                out,
                "{:<11} {:<21} {:<21} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8}",
                "time", "listener", "backend", "count", "mean us", "p50", "p95", "p99", "max"
            )?;
        }
        writeln!(
            out,
            "{:<11} {:<21} {:<21} {:>8} {:>9.1} {:>8} {:>8} {:>8} {:>8}",
            self.time,
            self.listener.to_string(),
            self.backend,
            self.count,
            self.mean,
            self.p50,
            self.p95,
            self.p99,
            self.max
        )
    }
}
