//! A log of what a process and its machine use, a row at a time, for days.
//!
//! `row` is one reading and its columns, `process` watches a process through its ends and
//! returns, `connections` counts sockets, `machine` reads what the kernel keeps, `probe` puts them
//! together and sees that reading costs little. The loop here owns when rows are taken.

pub mod row;
pub mod process;
mod connections;
mod machine;
pub mod probe;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::interrupt::Interrupt;
use row::Row;

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// From row to row.
    pub every: Duration,
    /// From the first row to the last; without it, until somebody interrupts.
    pub duration: Option<Duration>,
}

/// Where rows come from.
pub trait Source {
    /// Reads everything once.
    fn read(&mut self) -> Row;
}

/// Time as the loop needs it, so that a test owns it.
pub trait Clock {
    /// Time since the start.
    fn elapsed(&self) -> Duration;

    /// Sleeps until `after` from the start; whether to go on.
    fn sleep_until(&mut self, after: Duration) -> bool;
}

/// Sleeps that end when somebody interrupts.
#[derive(Debug)]
pub struct SystemClock {
    interrupt: Interrupt,
    started: Instant,
}

impl SystemClock {
    /// Time counts from now on.
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

/// Bytes of all objects of the kernel, now.
pub fn kernel_slab_bytes() -> Option<u64> {
    machine::read().slab
}

/// What a recording came to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// Rows written.
    pub rows: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// Most that was resident.
    pub resident_bytes_max: Option<u64>,
    /// Most connections that were established.
    pub established_connections_max: Option<u64>,
    /// Most that TCP's queues took.
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

/// Writes rows to `out`, each at once, and shows each to `tell`, until the time is over or a
/// sleep is interrupted.
///
/// # Errors
///
/// When `out` takes no more; the rows before that are in it.
pub fn run(
    source: &mut impl Source,
    pace: Sampling,
    clock: &mut impl Clock,
    out: &mut impl Write,
    mut tell: impl FnMut(&Row),
) -> io::Result<Summary> {
    let mut summary = Summary::default();
    writeln!(out, "{}", row::header())?;
    // Rows are due at multiples of the pace, so that a slow reading does not move all that follow.
    let intervals = |time: Duration| time.div_duration_f64(pace.every) as u32;
    let last = pace.duration.map(intervals);
    let mut number: u32 = 0;
    loop {
        if number > 0 && !clock.sleep_until(pace.every * number) {
            break;
        }
        let row = source.read();
        writeln!(out, "{row}")?;
        out.flush()?;
        summary.add(&row);
        tell(&row);
        if last.is_some_and(|last| number >= last) {
            break;
        }
        // Rows that were missed meanwhile are left out: two rows at once would show rates that
        // never were. The last one is never left out, only late.
        let next = intervals(clock.elapsed()).max(number) + 1;
        number = last.map_or(next, |last| next.min(last));
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    struct Fake(Duration);

    impl Source for Fake {
        fn read(&mut self) -> Row {
            Row {
                connections: Some(self.0.as_secs()),
                ..Row::at(SystemTime::UNIX_EPOCH + self.0, self.0)
            }
        }
    }

    struct TestClock {
        sleeps: Vec<Duration>,
        ends_after: usize,
        first_row_seconds: u64,
    }

    impl super::Clock for TestClock {
        fn elapsed(&self) -> Duration {
            // Only the first row takes time.
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
        let pace = Sampling {
            every: Duration::from_secs(10),
            duration: duration.map(Duration::from_secs),
        };
        let mut clock = TestClock {
            sleeps: Vec::new(),
            ends_after,
            first_row_seconds,
        };
        let mut out = Vec::new();
        let mut source = Fake(Duration::from_secs(7));
        let summary = run(&mut source, pace, &mut clock, &mut out, |_| {}).unwrap();
        (summary, clock.sleeps, String::from_utf8(out).unwrap())
    }

    #[test]
    fn rows_are_due_at_multiples_of_the_pace() {
        let (summary, sleeps, text) = record(Some(30), usize::MAX, 0);
        assert_eq!(summary.rows, 4);
        assert_eq!(sleeps, [10, 20, 30].map(Duration::from_secs));
        assert_eq!(text.lines().count(), 5);
        assert_eq!(summary.established_connections_max, Some(7));
        assert_eq!(summary.resident_bytes_max, None);
    }

    #[test]
    fn rows_that_were_missed_are_left_out() {
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
    fn an_interrupt_keeps_what_was_written() {
        let (summary, _, text) = record(None, 2, 0);
        assert_eq!((summary.rows, text.lines().count()), (2, 3));
    }
}
