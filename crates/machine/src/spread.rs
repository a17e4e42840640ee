//! Mean and standard deviation of a distribution, and of its smallest values.

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
    ///
    /// `values` has each value in ascending order, with how often it occurs.
    pub fn of_fastest(values: &[(u64, u64)], share: f64) -> Self {
        let all: u64 = values.iter().map(|(_, count)| count).sum();
        let wanted = ((all as f64 * share) as u64).max(1);
        let mut left = wanted;
        // Running mean and sum of squared deviations (Chan, Golub, LeVeque 1979).
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for &(value, occurrences) in values {
            let taken = occurrences.min(left);
            let value = value as f64;
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

    #[test]
    fn the_slowest_requests_are_not_among_the_fastest() {
        let values = [(10, 95), (20, 4), (100_000, 1)];
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
        // 95 times 10, 4 times 20, once 100,000: (950 + 80 + 100,000) / 100.
        assert!((all.mean - 1_010.3).abs() < 0.001, "{all:?}");
        assert!((all.stdev - 9_948.839).abs() < 0.001, "{all:?}");
        assert_eq!(all.in_units_of(10.0).mean, all.mean / 10.0);
    }

    #[test]
    fn one_value_has_no_deviation_and_no_values_have_no_spread() {
        let five = Spread {
            mean: 5.0,
            stdev: 0.0,
        };
        assert_eq!(Spread::of_fastest(&[(5, 1)], 0.95), five);
        assert_eq!(Spread::of_fastest(&[], 0.95), Spread::default());
    }
}
