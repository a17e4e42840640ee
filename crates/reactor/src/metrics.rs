//! Metrics of workers: names and meanings, a block of counters for each worker, and snapshots.
//!
//! Each worker writes its own block with plain stores; readers sum the blocks. Must never need a
//! locked instruction.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Type of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A count that only grows, from zero at the start.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// A time in nanoseconds that only grows. Exported in seconds.
    Time,
    /// A bucket of the histogram of events per poll. Its label is the range of events.
    Bucket,
}

/// Name and meaning of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricDescription {
    /// The family's name without the `encke_` prefix and the `_total` suffix of Prometheus.
    pub name: &'static str,
    /// The label that distinguishes metrics of one family, with its value.
    pub label: Option<(&'static str, &'static str)>,
    /// The type of the metric's values.
    pub kind: MetricKind,
    /// Help for operators. The same for all metrics of a family.
    pub help: &'static str,
}

/// Metrics of one program's workers: an enum that [`metrics!`](crate::metrics!) makes.
pub trait MetricSet: Copy + 'static {
    /// All metrics, in the order of their indexes. Those of one family are adjacent.
    const ALL: &'static [Self];
    /// Turns of the event loop.
    const TURNS: Self;
    /// Events that polls returned.
    const SIGNALS: Self;
    /// Polls, by the bit length of the number of events that they returned.
    const POLLS: [Self; 10];
    /// Nanoseconds spent working.
    const BUSY: Self;
    /// Nanoseconds spent waiting for events.
    const WAITING: Self;
    /// Calls of `accept`.
    const ACCEPTS: Self;
    /// Pauses in accepting because descriptors had run out.
    const ACCEPT_PAUSES: Self;
    /// Nanoseconds spent on signals.
    const STAGE_SIGNALS: Self;
    /// Nanoseconds spent on accepting.
    const STAGE_ACCEPT: Self;

    /// Returns the metric's name and meaning.
    fn describe(self) -> MetricDescription;

    /// Returns the metric's index in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

/// Makes an enum of the metrics of a program's workers: the listed ones, followed by those of the
/// event loop itself.
///
/// Each entry of the list is a family of metrics with its type, name, label and help. Metrics of
/// one family differ in the value of the label. The event loop also counts `Accepts`,
/// `AcceptPauses`, `StageSignals` and `StageAccept`, which the program must list, as it may have
/// others in their families.
///
/// ```
/// use reactor::{Counters, MetricSet, Snapshot};
///
/// reactor::metrics! {
///     /// Metrics of a file server.
///     enum Metric {
///         Gauge "open" [] "Open files." { Open }
///         Counter "closed" ["reason"] "Closed files, by reason." {
///             ClosedDone = "done", ClosedFailed = "failed",
///         }
///         Counter "accepts" [] "Connections accepted." { Accepts }
///         Counter "accept_pauses" [] "Pauses in accepting." { AcceptPauses }
///         Time "stage_seconds" ["stage"] "Busy seconds by stage." {
///             StageSignals = "signals", StageAccept = "accept",
///         }
///     }
/// }
///
/// let workers: [Counters<Metric, { Metric::ALL.len() }>; 2] = Default::default();
/// workers[0].add(Metric::Open, 3);
/// workers[0].take(Metric::Open, 1);
/// workers[1].add(Metric::ClosedDone, 1);
///
/// let snapshot = Snapshot::of(workers.iter());
/// assert_eq!(snapshot.total(Metric::Open.index()), 2);
/// assert_eq!(snapshot.to_string(), "open=2 closed_done=1");
/// ```
#[macro_export]
macro_rules! metrics {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident { $($own:tt)* }) => {
        $crate::metrics! { @make $(#[$meta])* $visibility enum $name {
            $($own)*
            Counter "turns" [] "Passes of the worker loop. Each pass makes one epoll_wait call." {
                Turns
            }
            Counter "poll_events" [] "Events returned by epoll_wait." { Signals }
            Bucket "events_per_poll" ["events"] "Events returned by each epoll_wait call." {
                Polls0 = "0", Polls1 = "1", Polls2 = "2-3", Polls4 = "4-7", Polls8 = "8-15",
                Polls16 = "16-31", Polls32 = "32-63", Polls64 = "64-127", Polls128 = "128-255",
                Polls256 = "256",
            }
            Time "worker_seconds" ["state"]
                "Seconds that each worker was busy or waiting. Waiting time is added when the wait \
                 ends."
                { Busy = "busy", Waiting = "waiting" }
        } }

        impl $crate::MetricSet for $name {
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
            const ACCEPTS: Self = Self::Accepts;
            const ACCEPT_PAUSES: Self = Self::AcceptPauses;
            const STAGE_SIGNALS: Self = Self::StageSignals;
            const STAGE_ACCEPT: Self = Self::StageAccept;

            fn describe(self) -> $crate::MetricDescription {
                Self::describe(self)
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
    (@make $(#[$meta:meta])* $visibility:vis enum $name:ident {
        $($kind:ident $family:literal $label:tt $help:literal {
            $($metric:ident $(= $value:literal)?),+ $(,)?
        })*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[doc = $help] $metric,)+)*
        }

        impl $name {
            /// All metrics. Those of one family are adjacent.
            $visibility const ALL: &[Self] = &[$($(Self::$metric),+),*];

            /// Returns the metric's name and meaning.
            $visibility const fn describe(self) -> $crate::MetricDescription {
                match self {
                    $($(Self::$metric => $crate::MetricDescription {
                        name: $family,
                        label: $crate::metrics!(@label $label $($value)?),
                        kind: $crate::MetricKind::$kind,
                        help: $help,
                    },)+)*
                }
            }
        }
    };
    (@label [$label:literal] $value:literal) => { Some(($label, $value)) };
    (@label []) => { None };
}

/// Counters of one worker: a cell for each of the `N` metrics of `F`. Written by the worker, read
/// by any thread.
///
/// Aligned so that two workers never write to the same cache line, nor to a pair that is fetched
/// together.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters<F, const N: usize> {
    cells: [AtomicU64; N],
    of: PhantomData<F>,
}

impl<F: MetricSet, const N: usize> Default for Counters<F, N> {
    fn default() -> Self {
        const { assert!(F::ALL.len() == N, "a cell for each metric") }
        Self {
            cells: [const { AtomicU64::new(0) }; N],
            of: PhantomData,
        }
    }
}

/// Counters that a worker writes. Only the worker itself may write, so no locked instruction is
/// needed.
pub trait Count {
    /// The metrics.
    type Metric: MetricSet;

    /// Adds to a metric.
    fn add(&self, metric: Self::Metric, count: u64);

    /// Adds time to a metric of [`MetricKind::Time`].
    fn add_time(&self, metric: Self::Metric, time: Duration) {
        self.add(metric, time.as_nanos() as u64);
    }

    /// Counts a turn whose poll returned `events`.
    fn polled(&self, events: usize) {
        self.add(Self::Metric::TURNS, 1);
        self.add(Self::Metric::SIGNALS, events as u64);
        let length = (usize::BITS - events.leading_zeros()) as usize;
        let polls = Self::Metric::POLLS;
        self.add(polls[length.min(polls.len() - 1)], 1);
    }
}

impl<F: MetricSet, const N: usize> Count for Counters<F, N> {
    type Metric = F;

    fn add(&self, metric: F, count: u64) {
        Self::add(self, metric, count);
    }
}

impl<F: MetricSet, const N: usize> Counters<F, N> {
    /// Adds to a metric. Only the owning worker calls this, so no locked instruction is needed.
    pub fn add(&self, metric: F, count: u64) {
        let cell = &self.cells[metric.index()];
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }

    /// Subtracts from a gauge.
    pub fn take(&self, metric: F, count: u64) {
        self.add(metric, count.wrapping_neg());
    }

    /// Returns a metric's value.
    pub fn get(&self, metric: F) -> u64 {
        self.cells[metric.index()].load(Ordering::Relaxed)
    }
}

/// Values of all workers' metrics at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The metrics. Those of one family are adjacent.
    pub metrics: Vec<MetricDescription>,
    /// The values of each worker, in the order of `metrics`.
    pub workers: Vec<Vec<u64>>,
}

impl Snapshot {
    /// Reads the counters of all workers.
    pub fn of<'a, F: MetricSet, const N: usize>(
        workers: impl Iterator<Item = &'a Counters<F, N>>,
    ) -> Self {
        let values =
            |counters: &Counters<F, N>| F::ALL.iter().map(|&metric| counters.get(metric)).collect();
        Self {
            metrics: F::ALL.iter().map(|metric| metric.describe()).collect(),
            workers: workers.map(values).collect(),
        }
    }

    /// Returns the index of the metric that has the name and the label of `described`.
    pub fn find(&self, described: &MetricDescription) -> Option<usize> {
        let is_same = |known: &MetricDescription| {
            known.name == described.name && known.label == described.label
        };
        self.metrics.iter().position(is_same)
    }

    /// Adds metrics of another set, with the value zero for every worker. Metrics that exist keep
    /// their values; the others follow the metrics that precede them in their own set, and families
    /// stay together.
    pub fn declare(&mut self, metrics: &[MetricDescription]) {
        let mut next = 0;
        for described in metrics {
            let family = self.metrics.iter().rposition(|m| m.name == described.name);
            next = family.map_or(next, |last| last + 1);
            if self.find(described).is_none() {
                self.metrics.insert(next, *described);
                for values in &mut self.workers {
                    values.insert(next, 0);
                }
                next += 1;
            }
        }
    }

    /// Adds the values of `other`, a snapshot of another set, to those of one worker. Metrics that
    /// this snapshot lacks are [declared](Self::declare).
    pub fn add(&mut self, worker: usize, other: &Self) {
        self.declare(&other.metrics);
        for (index, described) in other.metrics.iter().enumerate() {
            let Some(place) = self.find(described) else {
                continue;
            };
            if let Some(values) = self.workers.get_mut(worker) {
                values[place] = values[place].wrapping_add(other.total(index));
            }
        }
    }

    /// Returns the sum over all workers of the metric at this index.
    pub fn total(&self, index: usize) -> u64 {
        self.workers.iter().map(|values| values[index]).sum()
    }
}

/// Formats all nonzero sums as one line, like `connections_closed_done=3`. Times are in seconds.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for (index, metric) in self.metrics.iter().enumerate() {
            let sum = self.total(index);
            if sum == 0 {
                continue;
            }
            write!(f, "{gap}{}", metric.name)?;
            if let Some((_, label)) = metric.label {
                write!(f, "_{label}")?;
            }
            match metric.kind {
                MetricKind::Time => write!(f, "={:.3}", Duration::from_nanos(sum).as_secs_f64())?,
                MetricKind::Counter | MetricKind::Gauge | MetricKind::Bucket => {
                    write!(f, "={sum}")?
                }
            }
            gap = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    metrics! {
        /// What a worker of the tests counts.
        enum Metric {
            Gauge "open" [] "Open." { Open }
            Counter "accepts" [] "Accepts." { Accepts }
            Counter "accept_pauses" [] "Pauses." { AcceptPauses }
            Time "stage_seconds" ["stage"] "Busy time." {
                StageSignals = "signals", StageAccept = "accept",
            }
            Counter "lost" ["at"] "Lost." { LostHere = "here", LostThere = "there" }
        }
    }

    type Stats = Counters<Metric, { Metric::ALL.len() }>;

    #[test]
    fn own_metrics_come_before_those_of_the_loop_and_each_has_its_index() {
        for (place, metric) in Metric::ALL.iter().enumerate() {
            assert_eq!(metric.index(), place);
        }
        assert_eq!(Metric::LostThere.describe().label, Some(("at", "there")));
        assert_eq!(Metric::ALL[7], Metric::Turns);
        let mut names: Vec<_> = Metric::ALL.iter().map(|f| f.describe().name).collect();
        names.dedup();
        let together = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), together, "metrics of one name stand together");
    }

    #[test]
    fn a_snapshot_sums_workers_and_keeps_them_apart() {
        let workers = [Stats::default(), Stats::default()];
        workers[0].add(Metric::Open, 3);
        workers[1].add(Metric::Open, 2);
        workers[1].take(Metric::Open, 1);
        workers[1].add_time(Metric::Busy, Duration::from_micros(7));
        let snapshot = Snapshot::of(workers.iter());
        assert_eq!(snapshot.metrics.len(), Metric::ALL.len());
        assert_eq!(snapshot.total(Metric::Open.index()), 4);
        assert_eq!(snapshot.workers[1][Metric::Open.index()], 1);
        assert_eq!(snapshot.total(Metric::Busy.index()), 7_000);
        workers[0].add(Metric::LostThere, 5);
        workers[0].add_time(Metric::Waiting, Duration::from_millis(1_250));
        assert_eq!(
            Snapshot::of(workers.iter()).to_string(),
            "open=4 lost_there=5 worker_seconds_busy=0.000 worker_seconds_waiting=1.250"
        );
    }

    metrics! {
        /// What a worker of another crate counts.
        enum OtherMetric {
            Counter "lost" ["at"] "Lost." { LostElsewhere = "elsewhere", LostHere = "here" }
            Gauge "guests" [] "Guests." { Guests }
            Counter "accepts" [] "Accepts." { Accepts }
            Counter "accept_pauses" [] "Pauses." { AcceptPauses }
            Time "stage_seconds" ["stage"] "Busy time." {
                StageSignals = "signals", StageAccept = "accept",
            }
        }
    }

    #[test]
    fn metrics_of_another_set_are_summed_by_name_and_label_and_families_stay_together() {
        let workers = [Stats::default(), Stats::default()];
        let other = Counters::<OtherMetric, { OtherMetric::ALL.len() }>::default();
        workers[0].add(Metric::LostHere, 1);
        workers[1].add(Metric::LostHere, 10);
        workers[1].polled(2);
        other.add(OtherMetric::LostHere, 100);
        other.add(OtherMetric::LostElsewhere, 7);
        other.add(OtherMetric::Guests, 3);
        other.polled(5);
        let mut snapshot = Snapshot::of(workers.iter());
        snapshot.add(1, &Snapshot::of([&other].into_iter()));
        let of_the_loop = ["accepts", "accept_pauses", "stage_seconds"];
        let names: Vec<_> = snapshot
            .metrics
            .iter()
            .filter(|metric| !of_the_loop.contains(&metric.name))
            .map(|metric| (metric.name, metric.label.map_or("", |(_, value)| value)))
            .take(6)
            .collect();
        let lost = [("lost", "here"), ("lost", "there"), ("lost", "elsewhere")];
        assert_eq!(names[..4], [&[("open", "")][..], &lost].concat());
        assert_eq!(names[4..], [("guests", ""), ("turns", "")]);
        let of = |described: MetricDescription| {
            let place = snapshot.find(&described).unwrap();
            (snapshot.workers[0][place], snapshot.workers[1][place])
        };
        assert_eq!(of(Metric::LostHere.describe()), (1, 110));
        assert_eq!(of(OtherMetric::LostElsewhere.describe()), (0, 7));
        assert_eq!(of(OtherMetric::Guests.describe()), (0, 3));
        assert_eq!(of(Metric::Turns.describe()), (0, 2));
        assert_eq!(of(Metric::Signals.describe()), (0, 7));
        assert_eq!(snapshot.metrics.len(), Metric::ALL.len() + 2);
    }

    #[test]
    fn metrics_that_are_declared_are_zero_until_a_worker_counts_them() {
        let workers = [Stats::default()];
        let described: Vec<_> = OtherMetric::ALL.iter().map(|m| m.describe()).collect();
        let mut snapshot = Snapshot::of(workers.iter());
        snapshot.declare(&described);
        snapshot.declare(&described);
        assert_eq!(snapshot.metrics.len(), Metric::ALL.len() + 2);
        assert!(snapshot.workers[0].iter().all(|&value| value == 0));
        assert_eq!(snapshot.workers[0].len(), snapshot.metrics.len());
    }

    #[test]
    fn each_poll_falls_into_the_bucket_that_names_its_events() {
        let stats = Stats::default();
        let polls = [0, 1, 2, 3, 4, 7, 8, 15, 16, 128, 255, 256, 1_000];
        for events in polls {
            stats.polled(events);
        }
        assert_eq!(stats.get(Metric::Turns), polls.len() as u64);
        assert_eq!(
            stats.get(Metric::Signals),
            polls.iter().sum::<usize>() as u64
        );
        for metric in Metric::POLLS {
            let (_, range) = metric.describe().label.expect("a bucket has a range");
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: usize = first.parse().expect("a number");
            let last = match first {
                256 => usize::MAX,
                _ => last.parse().expect("a number"),
            };
            let within = polls
                .iter()
                .filter(|events| (first..=last).contains(events));
            assert_eq!(stats.get(metric), within.count() as u64, "{range}");
        }
    }
}
