//! What workers count: names and meanings, a block of counters for each worker, and a sheet of all.
//!
//! Each worker writes its own block with plain stores; readers sum the blocks. Must never need a locked
//! instruction.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether a figure only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows from zero at the start.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Time that only grows, in nanoseconds. Told in seconds.
    Time,
    /// Polls that returned as many events as the label says; only grows. Told as a histogram.
    Bucket,
}

/// A figure's name and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// In Prometheus terms, without the `encke_` prefix and the `_total` suffix.
    pub name: &'static str,
    /// The label that tells figures of one name apart, with its value.
    pub label: Option<(&'static str, &'static str)>,
    /// Whether it only grows.
    pub kind: Kind,
    /// One sentence.
    pub help: &'static str,
}

/// All that a worker of one program counts: an enum that [`figures!`](crate::figures) makes.
pub trait FigureSet: Copy + 'static {
    /// All of them, in the order of their indexes; those of one name stand together.
    const ALL: &'static [Self];
    /// Passes of the loop.
    const TURNS: Self;
    /// Events that polls returned.
    const SIGNALS: Self;
    /// Polls by the bit length of how many events they returned.
    const POLLS: [Self; 10];
    /// Time worked.
    const BUSY: Self;
    /// Time waited.
    const WAITING: Self;

    /// The figure's name and meaning.
    fn describe(self) -> Description;

    /// Its place in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

/// Makes the enum of all that a worker of one program counts: what is listed, and what every worker's loop
/// counts.
///
/// A figure is written `Accepted = Counter "connections_accepted" "Connections accepted.";`, one that
/// shares its name with others `ClosedPeer = Counter "connections_closed" ["reason" = "peer"] "…";`.
#[macro_export]
macro_rules! figures {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident { $($own:tt)* }) => {
        $crate::figures! { @make $(#[$meta])* $visibility enum $name {
            $($own)*
            Turns = Counter "turns" "Passes of the worker's loop, each with one epoll_wait.";
            Signals = Counter "poll_events" "Events that the poller reported.";
            Polls0 = Bucket "events_per_poll" ["events" = "0"] "Polls by how many events they returned.";
            Polls1 = Bucket "events_per_poll" ["events" = "1"] "Polls by how many events they returned.";
            Polls2 = Bucket "events_per_poll" ["events" = "2-3"] "Polls by how many events they returned.";
            Polls4 = Bucket "events_per_poll" ["events" = "4-7"] "Polls by how many events they returned.";
            Polls8 = Bucket "events_per_poll" ["events" = "8-15"] "Polls by how many events they returned.";
            Polls16 = Bucket "events_per_poll" ["events" = "16-31"] "Polls by how many events they returned.";
            Polls32 = Bucket "events_per_poll" ["events" = "32-63"] "Polls by how many events they returned.";
            Polls64 = Bucket "events_per_poll" ["events" = "64-127"] "Polls by how many events they returned.";
            Polls128 = Bucket "events_per_poll" ["events" = "128-255"] "Polls by how many events they returned.";
            Polls256 = Bucket "events_per_poll" ["events" = "256"] "Polls by how many events they returned.";
            Busy = Time "worker_seconds" ["state" = "busy"] "Time of the workers. What passes while one waits counts when it wakes.";
            Waiting = Time "worker_seconds" ["state" = "waiting"] "Time of the workers. What passes while one waits counts when it wakes.";
        } }

        impl $crate::FigureSet for $name {
            const ALL: &'static [Self] = Self::ALL;
            const TURNS: Self = Self::Turns;
            const SIGNALS: Self = Self::Signals;
            const POLLS: [Self; 10] = [
                Self::Polls0,
                Self::Polls1,
                Self::Polls2,
                Self::Polls4,
                Self::Polls8,
                Self::Polls16,
                Self::Polls32,
                Self::Polls64,
                Self::Polls128,
                Self::Polls256,
            ];
            const BUSY: Self = Self::Busy;
            const WAITING: Self = Self::Waiting;

            fn describe(self) -> $crate::Description {
                Self::describe(self)
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
    (@make $(#[$meta:meta])* $visibility:vis enum $name:ident {
        $($figure:ident = $kind:ident $text:literal $([$label:literal = $value:literal])? $help:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $name {
            $(#[doc = $help] $figure,)*
        }

        impl $name {
            /// All figures; those of one name stand together.
            $visibility const ALL: &[Self] = &[$(Self::$figure),*];

            /// The figure's name and meaning.
            $visibility const fn describe(self) -> $crate::Description {
                match self {
                    $(Self::$figure => $crate::Description {
                        name: $text,
                        label: $crate::figures!(@label $($label = $value)?),
                        kind: $crate::Kind::$kind,
                        help: $help,
                    },)*
                }
            }
        }
    };
    (@label $label:literal = $value:literal) => { Some(($label, $value)) };
    (@label) => { None };
}

/// One worker's figures: `N` is how many there are in `F`. Written by the worker, read by anybody.
///
/// Aligned so that no two workers write to one cache line, nor to two that are fetched together.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters<F, const N: usize> {
    cells: [AtomicU64; N],
    of: PhantomData<F>,
}

impl<F: FigureSet, const N: usize> Default for Counters<F, N> {
    fn default() -> Self {
        const { assert!(F::ALL.len() == N, "a cell for each figure") }
        Self {
            cells: [const { AtomicU64::new(0) }; N],
            of: PhantomData,
        }
    }
}

impl<F: FigureSet, const N: usize> Counters<F, N> {
    /// Adds to a figure. Only the owning worker calls this, so no locked instruction is needed.
    pub fn add(&self, figure: F, count: u64) {
        let cell = &self.cells[figure.index()];
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    /// Subtracts from a gauge.
    pub fn take(&self, figure: F, count: u64) {
        self.add(figure, count.wrapping_neg());
    }

    /// Adds time to a figure.
    pub fn add_time(&self, figure: F, time: Duration) {
        self.add(figure, time.as_nanos() as u64);
    }

    /// Counts a turn whose poll returned so many events.
    pub fn polled(&self, events: usize) {
        self.add(F::TURNS, 1);
        self.add(F::SIGNALS, events as u64);
        let length = (usize::BITS - events.leading_zeros()) as usize;
        self.add(F::POLLS[length.min(F::POLLS.len() - 1)], 1);
    }

    /// A figure's value.
    pub fn get(&self, figure: F) -> u64 {
        self.cells[figure.index()].load(Ordering::Relaxed)
    }
}

/// What all workers of a program have counted at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sheet {
    /// What is counted; figures of one name stand together.
    pub figures: Vec<Description>,
    /// For each worker its values, in the order of `figures`.
    pub workers: Vec<Vec<u64>>,
}

impl Sheet {
    /// Reads the counters of all workers.
    pub fn of<'a, F: FigureSet, const N: usize>(
        workers: impl Iterator<Item = &'a Counters<F, N>>,
    ) -> Self {
        let values =
            |counters: &Counters<F, N>| F::ALL.iter().map(|&figure| counters.get(figure)).collect();
        Self {
            figures: F::ALL.iter().map(|figure| figure.describe()).collect(),
            workers: workers.map(values).collect(),
        }
    }

    /// The sum over all workers of the figure at this place.
    pub fn total(&self, index: usize) -> u64 {
        self.workers.iter().map(|values| values[index]).sum()
    }
}

/// A line for a log: all sums that are not zero, as `connections_closed_done=3`, times in seconds.
impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for (index, figure) in self.figures.iter().enumerate() {
            let sum = self.total(index);
            if sum == 0 {
                continue;
            }
            write!(f, "{gap}{}", figure.name)?;
            if let Some((_, label)) = figure.label {
                write!(f, "_{label}")?;
            }
            match figure.kind {
                Kind::Time => write!(f, "={:.3}", Duration::from_nanos(sum).as_secs_f64())?,
                Kind::Counter | Kind::Gauge | Kind::Bucket => write!(f, "={sum}")?,
            }
            gap = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    figures! {
        /// What a worker of the tests counts.
        enum Figure {
            Open = Gauge "open" "Open.";
            LostHere = Counter "lost" ["at" = "here"] "Lost.";
            LostThere = Counter "lost" ["at" = "there"] "Lost.";
        }
    }

    type Stats = Counters<Figure, { Figure::ALL.len() }>;

    #[test]
    fn own_figures_come_before_those_of_the_loop_and_each_has_its_place() {
        for (place, figure) in Figure::ALL.iter().enumerate() {
            assert_eq!(figure.index(), place);
        }
        assert_eq!(Figure::LostThere.describe().label, Some(("at", "there")));
        assert_eq!(Figure::ALL[3], Figure::Turns);
        let mut names: Vec<_> = Figure::ALL.iter().map(|f| f.describe().name).collect();
        names.dedup();
        let together = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), together, "figures of one name stand together");
    }

    #[test]
    fn a_sheet_sums_workers_and_keeps_them_apart() {
        let workers = [Stats::default(), Stats::default()];
        workers[0].add(Figure::Open, 3);
        workers[1].add(Figure::Open, 2);
        workers[1].take(Figure::Open, 1);
        workers[1].add_time(Figure::Busy, Duration::from_micros(7));
        let sheet = Sheet::of(workers.iter());
        assert_eq!(sheet.figures.len(), Figure::ALL.len());
        assert_eq!(sheet.total(Figure::Open.index()), 4);
        assert_eq!(sheet.workers[1][Figure::Open.index()], 1);
        assert_eq!(sheet.total(Figure::Busy.index()), 7_000);
        workers[0].add(Figure::LostThere, 5);
        workers[0].add_time(Figure::Waiting, Duration::from_millis(1_250));
        assert_eq!(
            Sheet::of(workers.iter()).to_string(),
            "open=4 lost_there=5 worker_seconds_busy=0.000 worker_seconds_waiting=1.250"
        );
    }

    #[test]
    fn each_poll_falls_into_the_bucket_that_names_its_events() {
        let stats = Stats::default();
        let polls = [0, 1, 2, 3, 4, 7, 8, 15, 16, 128, 255, 256, 1_000];
        for events in polls {
            stats.polled(events);
        }
        assert_eq!(stats.get(Figure::Turns), polls.len() as u64);
        assert_eq!(
            stats.get(Figure::Signals),
            polls.iter().sum::<usize>() as u64
        );
        for figure in Figure::POLLS {
            let (_, range) = figure.describe().label.expect("a bucket has a range");
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: usize = first.parse().expect("a number");
            let last = match first {
                256 => usize::MAX,
                _ => last.parse().expect("a number"),
            };
            let within = polls
                .iter()
                .filter(|events| (first..=last).contains(events));
            assert_eq!(stats.get(figure), within.count() as u64, "{range}");
        }
    }
}
