//! Mean and standard deviation of a distribution, and of its smallest values.

use hdrhistogram::Histogram;

/// Mean and standard deviation, in the unit of the histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population, not an estimate from a sample.
    pub stdev: f64,
}

impl Spread {
    /// Computes the spread of the smallest values: the fraction `share` of all, rounded down, but
    /// at least one. It is not distorted by a few slow requests (`95_avg` and `95_std` of tcprstat,
    /// Percona 2010).
    pub fn of_fastest(values: &Histogram<u64>, share: f64) -> Self {
        let wanted = ((values.len() as f64 * share) as u64).max(1);
        let mut left = wanted;
        // Running mean and sum of squared deviations (Chan, Golub, LeVeque 1979).
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for step in values.iter_recorded() {
            let taken = step.count_at_value().min(left);
            let value = values.median_equivalent(step.value_iterated_to()) as f64;
            let distance = value - mean;
            let before = count;
            count += taken as f64;
            mean += distance * taken as f64 / count;
            squares += distance * distance * before * taken as f64 / count;
            left -= taken;
            if left == 0 {
                break;
            }
        }
        Self {
            mean,
            stdev: if count > 0.0 {
                (squares / count).sqrt()
            } else {
                0.0
            },
        }
    }

    /// Converts to a unit that is `size` of the present one.
    pub fn in_units_of(self, size: f64) -> Self {
        Self {
            mean: self.mean / size,
            stdev: self.stdev / size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 1 << 31, 2).expect("valid bounds");
        for value in values {
            histogram.saturating_record(value);
        }
        histogram
    }

    #[test]
    fn the_slowest_requests_are_not_among_the_fastest() {
        let values = histogram([10; 95].into_iter().chain([20; 4]).chain([100_000]));
        let tens = Spread {
            mean: 10.0,
            stdev: 0.0,
        };
        assert_eq!(Spread::of_fastest(&values, 0.95), tens);
        let with_twenties = Spread::of_fastest(&values, 0.99);
        // 95 times 10 and 4 times 20.
        assert!(
            (with_twenties.mean - 10.404).abs() < 0.001,
            "{with_twenties:?}"
        );
        assert!(
            (with_twenties.stdev - 1.969).abs() < 0.001,
            "{with_twenties:?}"
        );
        // A cut among equal values: 95 times 10 and 2 times 20.
        let cut = Spread::of_fastest(&values, 0.97);
        assert!((cut.mean - 10.206).abs() < 0.001, "{cut:?}");
        let all = Spread::of_fastest(&values, 1.0);
        assert!((all.mean - values.mean()).abs() < 0.001);
        assert!((all.stdev - values.stdev()).abs() < 0.001);
        assert_eq!(all.in_units_of(10.0).mean, all.mean / 10.0);
    }

    #[test]
    fn one_value_has_no_deviation_and_no_values_have_no_spread() {
        let five = Spread {
            mean: 5.0,
            stdev: 0.0,
        };
        assert_eq!(Spread::of_fastest(&histogram([5]), 0.95), five);
        assert_eq!(Spread::of_fastest(&histogram([]), 0.95), Spread::default());
    }
}
