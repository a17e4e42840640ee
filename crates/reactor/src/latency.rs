//! Latencies: a clock that threads share, and a histogram with fixed buckets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::system::Stopwatch;

/// Upper bounds of the buckets, in microseconds: from what one core needs for one event to what no
/// user waits for.
const BOUNDS_MICROS: [u64; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Bounds, and what lies beyond.
const BUCKETS: usize = BOUNDS_MICROS.len() + 1;

/// Clock that several threads read. Only the difference of two readings means something.
#[derive(Debug, Clone)]
pub struct SharedClock(Source);

#[derive(Debug, Clone)]
enum Source {
    System(Stopwatch),
    /// Nanoseconds that a test sets.
    Manual(Arc<AtomicU64>),
}

impl SharedClock {
    /// Starts the clock of the system.
    pub fn system() -> Self {
        Self(Source::System(Stopwatch::start()))
    }

    /// Makes a clock that shows the nanoseconds that a simulation sets.
    pub const fn manual(nanos: Arc<AtomicU64>) -> Self {
        Self(Source::Manual(nanos))
    }

    /// Reads the clock.
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::System(stopwatch) => stopwatch.elapsed(),
            Source::Manual(nanos) => Duration::from_nanos(nanos.load(Relaxed)),
        }
    }
}

/// Histogram of latencies. Written by its owner, read by any thread.
#[derive(Debug, Default)]
pub struct LatencyHistogram {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// Values of histograms at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latencies {
    buckets: [u64; BUCKETS],
    nanos: u64,
}

impl LatencyHistogram {
    /// Counts a latency. Only one thread may call this: it needs no locked instruction.
    pub fn record(&self, latency: Duration) {
        let add = |cell: &AtomicU64, count| cell.store(cell.load(Relaxed) + count, Relaxed);
        add(&self.buckets[bucket(latency)], 1);
        add(&self.nanos, latency.as_nanos() as u64);
    }

    /// Counts a latency that several threads may count.
    pub fn record_shared(&self, latency: Duration) {
        self.buckets[bucket(latency)].fetch_add(1, Relaxed);
        self.nanos.fetch_add(latency.as_nanos() as u64, Relaxed);
    }

    /// Returns the values so far.
    pub fn read(&self) -> Latencies {
        Latencies {
            buckets: std::array::from_fn(|place| self.buckets[place].load(Relaxed)),
            nanos: self.nanos.load(Relaxed),
        }
    }
}

impl Latencies {
    /// Adds the values of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += count;
        }
        self.nanos += other.nanos;
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the latencies.
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Returns the upper bound of each bucket, in seconds, with the number of latencies in it.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS_MICROS.iter().map(|micros| *micros as f64 / 1e6);
        bounds.chain([f64::INFINITY]).zip(self.buckets)
    }
}

/// Returns the place of the first bucket whose bound is not below a latency.
fn bucket(latency: Duration) -> usize {
    // Nanoseconds, as a bound is part of its bucket and a nanosecond more is not.
    let nanos = latency.as_nanos();
    BOUNDS_MICROS.partition_point(|bound| u128::from(*bound) * 1_000 < nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = LatencyHistogram::default();
        for (place, micros) in BOUNDS_MICROS.iter().enumerate() {
            let bound = Duration::from_micros(*micros);
            histogram.record(bound);
            histogram.record_shared(bound + Duration::from_nanos(1));
            let latencies = histogram.read();
            let counts: Vec<u64> = latencies.buckets().map(|(_, count)| count).collect();
            assert_eq!(counts[place + 1], 1, "{micros}");
            assert_eq!(latencies.count(), 2 * (place as u64 + 1));
        }
        let latencies = histogram.read();
        assert_eq!(latencies.buckets().last(), Some((f64::INFINITY, 1)));
        assert_eq!(latencies.buckets().next(), Some((0.000_05, 1)));
    }

    #[test]
    fn sums_of_workers_are_those_of_all_latencies() {
        let own = [LatencyHistogram::default(), LatencyHistogram::default()];
        own[0].record(Duration::from_micros(70));
        own[1].record(Duration::from_secs(70));
        let mut sum = Latencies::default();
        own.iter().for_each(|own| sum.add(&own.read()));
        assert_eq!(sum.count(), 2);
        assert_eq!(sum.sum(), Duration::from_micros(70_000_070));
    }

    #[test]
    fn a_clock_goes_on_by_itself_or_as_it_is_set() {
        let clock = SharedClock::system();
        let before = clock.now();
        assert!(clock.clone().now() >= before);
        let nanos = Arc::default();
        let manual = SharedClock::manual(Arc::clone(&nanos));
        nanos.store(7, Relaxed);
        assert_eq!(manual.now(), Duration::from_nanos(7));
    }
}
