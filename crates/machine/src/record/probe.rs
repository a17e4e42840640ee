//! All that is read for a row, and how often: what is dear is read less often.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use super::Source;
use super::connections::Connections;
use super::machine;
use super::process::{Change, ProcessSelector, Watch};
use super::row::Row;
use crate::clock::thread_cpu_nanos;
use crate::failure::{Context, Outcome};

/// A dear reading may take this share of one processor: at a pace of 10 s each is read for every
/// row up to 200 ms, and less often beyond. The cells of the rows between are empty.
const SHARE_OF_PROCESSOR: u32 = 50;

/// What to read.
#[derive(Debug, Clone)]
pub struct Options {
    /// The process to watch; without it, the machine alone.
    pub whom: Option<ProcessSelector>,
    /// The local port whose connections are counted.
    pub port: u16,
}

/// Reads rows. Lives as long as the recording.
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
    /// Opens what is needed. Time counts from now on.
    ///
    /// # Errors
    ///
    /// When the process is selected by its number and does not exist, or the kernel has no
    /// `sock_diag`.
    pub fn start(options: Options) -> Outcome<Self> {
        Ok(Self {
            watch: options.whom.map(Watch::start).transpose()?,
            port: options.port,
            connections: Connections::open().context(
                "asking the kernel for connections (sock_diag; the module tcp_diag must be there)",
            )?,
            counting: Budget::default(),
            walking: Budget::default(),
            started: Instant::now(),
            changes: VecDeque::new(),
        })
    }

    /// What became of the process, each change once, in order.
    pub fn changes(&mut self) -> impl Iterator<Item = Change> {
        self.changes.drain(..)
    }
}

impl Source for Probe {
    fn read(&mut self) -> Row {
        let elapsed = self.started.elapsed();
        let mut row = Row::at(SystemTime::now(), elapsed);
        if let Some(watch) = &mut self.watch {
            let (figures, changes) = watch.look();
            row.process = figures;
            self.changes.extend(changes);
        }
        if let Some(figures) = &mut row.process {
            self.walking.spend(elapsed, || Watch::look_closely(figures));
        }
        let count = || self.connections.established(self.port).ok();
        row.connections = self.counting.spend(elapsed, count).flatten();
        row.machine = machine::read();
        row
    }
}

/// Sees that a dear reading takes no more than its share.
#[derive(Debug, Default)]
struct Budget {
    not_before: Duration,
}

impl Budget {
    /// Does it when it is due, `now` after the start.
    fn spend<T>(&mut self, now: Duration, reading: impl FnOnce() -> T) -> Option<T> {
        if now < self.not_before {
            return None;
        }
        let before = thread_cpu_nanos();
        let read = reading();
        self.took(now, Duration::from_nanos(thread_cpu_nanos() - before));
        Some(read)
    }

    fn took(&mut self, now: Duration, cost: Duration) {
        self.not_before = now + cost * SHARE_OF_PROCESSOR;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_reading_waits_until_it_has_been_paid_for() {
        let seconds = Duration::from_secs;
        let mut budget = Budget::default();
        assert_eq!(budget.spend(seconds(0), || 1), Some(1));
        budget.took(seconds(0), Duration::from_millis(250));
        assert_eq!(budget.spend(seconds(10), || 2), None);
        assert_eq!(budget.spend(seconds(12), || 3), None);
        assert_eq!(budget.spend(seconds(13), || 4), Some(4));
    }

    #[test]
    fn a_row_tells_of_this_process_and_machine() {
        let options = Options {
            whom: Some(ProcessSelector::Pid(std::process::id())),
            port: 1,
        };
        let mut probe = Probe::start(options).unwrap();
        let row = probe.read();
        let process = row.process.unwrap();
        assert!(process.resident >= process.private.unwrap());
        assert!(process.threads > 0);
        assert_eq!(row.connections, Some(0));
        assert_eq!(probe.changes().count(), 1);
        assert_eq!(probe.changes().count(), 0);
    }
}
