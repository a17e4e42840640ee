//! Reading of rows. Expensive readings are taken less often.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use ::machine::clock::thread_cpu_nanos;
use ::machine::failure::{Context, Outcome};

use super::connections::Connections;
use super::machine;
use super::process::{Change, ProcessSelector, Watch};
use super::row::Row;

/// Inverse of the share of one processor that an expensive reading may take. At an interval of 10
/// s, a reading of up to 200 ms is taken for every row, a longer one less often; the cells of the
/// rows between are empty.
const SHARE_OF_PROCESSOR: u32 = 50;

/// Reader of rows. Lives as long as the recording.
#[derive(Debug)]
pub struct Probe {
    watch: Option<Watch>,
    port: u16,
    connections: Connections,
    counting: Budget,
    walking: Budget,
    started: Instant,
    changes: VecDeque<Change>,
}

impl Probe {
    /// Starts a probe of process `whom`, or else of the machine alone, which counts the connections
    /// of the local `port`. Elapsed time counts from now on.
    ///
    /// # Errors
    ///
    /// When the process is selected by its number and does not exist, or the kernel has no
    /// `sock_diag`.
    pub fn start(whom: Option<ProcessSelector>, port: u16) -> Outcome<Self> {
        Ok(Self {
            watch: whom.map(Watch::start).transpose()?,
            port,
            connections: Connections::open().context(
                "opening sock_diag to count connections (the kernel needs the module tcp_diag)",
            )?,
            counting: Budget::default(),
            walking: Budget::default(),
            started: Instant::now(),
            changes: VecDeque::new(),
        })
    }

    /// Drains the changes of the process, in order.
    pub fn changes(&mut self) -> impl Iterator<Item = Change> {
        self.changes.drain(..)
    }

    /// Reads one row.
    pub fn read(&mut self) -> Row {
        let elapsed = self.started.elapsed();
        let mut row = Row::at(SystemTime::now(), elapsed);
        if let Some(watch) = &mut self.watch {
            let (metrics, changes) = watch.read();
            row.process = metrics;
            self.changes.extend(changes);
        }
        if let Some(metrics) = &mut row.process {
            let walk = || Watch::add_memory_details(metrics);
            self.walking.spend(elapsed, walk);
        }
        let count = || self.connections.established(self.port).ok();
        row.connections = self.counting.spend(elapsed, count).flatten();
        row.machine = machine::read();
        row
    }
}

/// Budget of an expensive reading, which keeps it within its share of a processor.
#[derive(Debug, Default)]
struct Budget {
    next_at: Duration,
}

impl Budget {
    /// Takes the reading if it is due; `now` is the time since the start.
    fn spend<T>(&mut self, now: Duration, reading: impl FnOnce() -> T) -> Option<T> {
        if now < self.next_at {
            return None;
        }
        let before = thread_cpu_nanos();
        let read = reading();
        self.charge(now, Duration::from_nanos(thread_cpu_nanos() - before));
        Some(read)
    }

    fn charge(&mut self, now: Duration, cost: Duration) {
        self.next_at = now + cost * SHARE_OF_PROCESSOR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_reading_is_taken_less_often() {
        let seconds = Duration::from_secs;
        let mut budget = Budget::default();
        assert_eq!(budget.spend(seconds(0), || 1), Some(1));
        budget.charge(seconds(0), Duration::from_millis(250));
        assert_eq!(budget.spend(seconds(10), || 2), None);
        assert_eq!(budget.spend(seconds(12), || 3), None);
        assert_eq!(budget.spend(seconds(13), || 4), Some(4));
    }

    #[test]
    fn a_row_describes_this_process_and_machine() {
        let whom = Some(ProcessSelector::Pid(std::process::id()));
        let mut probe = Probe::start(whom, 1).unwrap();
        let row = probe.read();
        let process = row.process.unwrap();
        assert!(process.resident >= process.private.unwrap());
        assert!(process.threads > 0);
        assert_eq!(row.connections, Some(0));
        assert_eq!(probe.changes().count(), 1);
        assert_eq!(probe.changes().count(), 0);
    }
}
