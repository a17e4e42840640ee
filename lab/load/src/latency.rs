//! Summary of a distribution of times.

use hdrhistogram::Histogram;
use machine::spread::Spread;
use serde::{Deserialize, Serialize};

/// Summary of a latency distribution, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Minimum.
    pub min_us: f64,
    /// Mean.
    pub mean_us: f64,
    /// Standard deviation.
    pub stdev_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// Mean of the fastest 95 %.
    pub p95_mean_us: f64,
    /// Standard deviation of the fastest 95 %.
    pub p95_stdev_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Mean of the fastest 99 %.
    pub p99_mean_us: f64,
    /// Standard deviation of the fastest 99 %.
    pub p99_stdev_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// 99.99th percentile.
    pub p9999_us: f64,
    /// Maximum.
    pub max_us: f64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let quantile = |of: f64| micros(histogram.value_at_quantile(of));
        let values = histogram.iter_recorded().map(|step| {
            let value = histogram.median_equivalent(step.value_iterated_to());
            (value, step.count_at_value())
        });
        let values: Vec<_> = values.collect();
        let fastest = |share| Spread::of_fastest(&values, share).in_units_of(1000.0);
        let (all, p95, p99) = (fastest(1.0), fastest(0.95), fastest(0.99));
        Self {
            count: histogram.len(),
            min_us: micros(histogram.min()),
            mean_us: all.mean,
            stdev_us: all.stdev,
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p95_us: quantile(0.95),
            p95_mean_us: p95.mean,
            p95_stdev_us: p95.stdev,
            p99_us: quantile(0.99),
            p99_mean_us: p99.mean,
            p99_stdev_us: p99.stdev,
            p999_us: quantile(0.999),
            p9999_us: quantile(0.9999),
            max_us: micros(histogram.max()),
        }
    }
}
