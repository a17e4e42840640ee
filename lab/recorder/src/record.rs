//! Recorder of the resource use of a process and its machine over days, in rows.
//!
//! `row` is one reading and its columns, `process` watches a process across restarts, `connections`
//! counts sockets, `machine` reads metrics of the machine, and `probe` combines them and limits the
//! cost of reading. The loop here decides when rows are taken.

pub mod row;
pub mod process;
mod connections;
mod machine;
pub mod probe;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use ::machine::interrupt::Interrupt;
use serde::Serialize;

use row::Row;

/// Interval and duration of a recording.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Interval between rows.
    pub every: Duration,
    /// Time from the first row to the last. `None`: until interrupted.
    pub duration: Option<Duration>,
}

/// Clock of the loop, which tests replace.
pub trait Clock {
    /// Returns the time since the start.
    fn elapsed(&self) -> Duration;

    /// Sleeps until `after` from the start. Returns false if interrupted.
    fn sleep_until(&mut self, after: Duration) -> bool;
}

/// Real clock, whose sleeps end with an interrupt.
#[derive(Debug)]
pub struct SystemClock {
    interrupt: Interrupt,
    started: Instant,
}

impl SystemClock {
    /// Creates a clock that starts now.
    pub fn from_now(interrupt: Interrupt) -> Self {
        Self {
            interrupt,
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep_until(&mut self, after: Duration) -> bool {
        self.interrupt.sleep_until(self.started + after)
    }
}

/// Reads the bytes of all kernel objects.
pub fn kernel_slab_bytes() -> Option<u64> {
    machine::read().slab
}

/// Summary of a recording.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// Rows written.
    pub rows: u64,
    /// Seconds from the first row to the last.
    pub seconds: f64,
    /// Largest resident memory.
    pub resident_bytes_max: Option<u64>,
    /// Largest number of established connections.
    pub established_connections_max: Option<u64>,
    /// Largest memory of TCP queues.
    pub socket_memory_bytes_max: Option<u64>,
}

impl Summary {
    fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.seconds = row.elapsed.as_secs_f64();
        let raise = |most: &mut Option<u64>, now: Option<u64>| *most = (*most).max(now);
        raise(
            &mut self.resident_bytes_max,
            row.process.map(|process| process.resident),
        );
        raise(&mut self.established_connections_max, row.connections);
        raise(&mut self.socket_memory_bytes_max, row.machine.socket_memory);
    }
}

/// Writes the rows that `read` reads to `out` and flushes each, and passes each to `tell`, until
/// the duration is over or a sleep is interrupted.
///
/// # Errors
///
/// When `out` cannot be written; the rows before that are in it.
pub fn run(
    mut read: impl FnMut() -> Row,
    sampling: Sampling,
    clock: &mut impl Clock,
    out: &mut impl Write,
    mut tell: impl FnMut(&Row),
) -> io::Result<Summary> {
    let mut summary = Summary::default();
    writeln!(out, "{}", row::header())?;
    // Rows are due at multiples of the interval, so that a slow reading does not delay all later
    // rows.
    let intervals = |time: Duration| time.div_duration_f64(sampling.every) as u32;
    let last = sampling.duration.map(intervals);
    let mut number: u32 = 0;
    loop {
        if number > 0 && !clock.sleep_until(sampling.every * number) {
            break;
        }
        let row = read();
        writeln!(out, "{row}")?;
        out.flush()?;
        summary.add(&row);
        tell(&row);
        if last.is_some_and(|last| number >= last) {
            break;
        }
        // Skip rows that were missed during the reading: two rows in quick succession would show
        // wrong rates. The last row is never skipped, only late.
        let next = intervals(clock.elapsed()).max(number) + 1;
        number = last.map_or(next, |last| next.min(last));
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn fake(after: Duration) -> Row {
        Row {
            connections: Some(after.as_secs()),
            ..Row::at(SystemTime::UNIX_EPOCH + after, after)
        }
    }

    struct TestClock {
        sleeps: Vec<Duration>,
        ends_after: usize,
        first_row_seconds: u64,
    }

    impl Clock for TestClock {
        fn elapsed(&self) -> Duration {
            // Only reading the first row takes time.
            let first = Duration::from_secs(self.first_row_seconds);
            self.sleeps.last().copied().unwrap_or(first)
        }

        fn sleep_until(&mut self, after: Duration) -> bool {
            self.sleeps.push(after);
            self.sleeps.len() < self.ends_after
        }
    }

    fn record(
        duration: Option<u64>,
        ends_after: usize,
        first_row_seconds: u64,
    ) -> (Summary, Vec<Duration>, String) {
        let sampling = Sampling {
            every: Duration::from_secs(10),
            duration: duration.map(Duration::from_secs),
        };
        let mut clock = TestClock {
            sleeps: Vec::new(),
            ends_after,
            first_row_seconds,
        };
        let mut out = Vec::new();
        let read = || fake(Duration::from_secs(7));
        let summary = run(read, sampling, &mut clock, &mut out, |_| {}).unwrap();
        (summary, clock.sleeps, String::from_utf8(out).unwrap())
    }

    #[test]
    fn rows_are_due_at_multiples_of_the_interval() {
        let (summary, sleeps, text) = record(Some(30), usize::MAX, 0);
        assert_eq!(summary.rows, 4);
        assert_eq!(sleeps, [10, 20, 30].map(Duration::from_secs));
        assert_eq!(text.lines().count(), 5);
        assert_eq!(summary.established_connections_max, Some(7));
        assert_eq!(summary.resident_bytes_max, None);
    }

    #[test]
    fn missed_rows_are_skipped() {
        let (_, sleeps, _) = record(Some(50), usize::MAX, 25);
        assert_eq!(sleeps, [30, 40, 50].map(Duration::from_secs));
    }

    #[test]
    fn the_last_row_is_late_rather_than_missing() {
        for first_row_seconds in [45, 50, 70] {
            let (summary, sleeps, _) = record(Some(50), usize::MAX, first_row_seconds);
            assert_eq!(summary.rows, 2);
            assert_eq!(sleeps, [Duration::from_secs(50)]);
        }
        let (summary, ..) = record(Some(0), usize::MAX, 70);
        assert_eq!(summary.rows, 1);
    }

    #[test]
    fn an_interrupt_keeps_the_rows_written() {
        let (summary, _, text) = record(None, 2, 0);
        assert_eq!((summary.rows, text.lines().count()), (2, 3));
    }
}
