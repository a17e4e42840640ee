//! Degree distribution of a graph of friends: its statistics, and the power law fitted to its tail.
//! Pure functions.

use serde::Serialize;

/// Fewest users in a tail that is fitted: with fewer, the standard error exceeds 0.3.
const TAIL_MIN: u64 = 50;

/// Smallest degree at which a tail may begin. Below it the discrete approximation is off by more
/// than a tenth.
const TAIL_FROM_MIN: u32 = 20;

/// Degree distribution: how many friends users have.
#[derive(Debug, Clone, Serialize)]
pub struct Distribution {
    /// Smallest degree.
    pub min: u32,
    /// Median degree.
    pub median: u32,
    /// Mean degree.
    pub mean: f64,
    /// 99th percentile of the degree.
    pub p99: u32,
    /// Largest degree.
    pub max: u32,
    /// Histogram with bins between powers of two, from the first to the last nonempty one.
    pub histogram: Vec<Bin>,
    /// Power law of the tail, unless the tail has too few users.
    pub power_law: Option<PowerLaw>,
    /// For each degree that occurs, in ascending order: the degree, and the users with at least
    /// that degree.
    #[serde(skip)]
    pub at_least: Vec<(u32, u64)>,
}

/// Histogram bin: users with `from` to `to` friends, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// A power of two, or 0.
    pub from: u32,
    /// One less than the next power of two.
    pub to: u32,
    /// Number of users.
    pub users: u64,
}

/// `p(k) ~ k^-exponent` for all `k` from `from` on.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PowerLaw {
    /// Maximum likelihood estimate; the theoretical value for Barabási and Albert's graph is 3.
    pub exponent: f64,
    /// Its standard error.
    pub error: f64,
    /// The degree at which the tail begins.
    pub from: u32,
    /// Users in the tail.
    pub users: u64,
}

/// Returns the degree at which the tail begins: four times the friends that a new user makes, as
/// smaller degrees do not follow the power law.
pub fn tail_from(degree: u32) -> u32 {
    degree.saturating_mul(4).max(TAIL_FROM_MIN)
}

impl Distribution {
    /// Computes the distribution of `degrees`, one for each user and at least one. The tail begins
    /// at `tail_from`.
    pub fn of(degrees: &[u32], tail_from: u32) -> Self {
        let max = degrees.iter().copied().max().unwrap_or(0);
        let mut users_with = vec![0u64; max as usize + 1];
        for &degree in degrees {
            users_with[degree as usize] += 1;
        }
        let users = degrees.len() as u64;
        let sum: u64 = degrees.iter().map(|&degree| u64::from(degree)).sum();
        let occurring = || {
            (0u32..)
                .zip(users_with.iter().copied())
                .filter(|(_, users)| *users > 0)
        };
        Self {
            min: occurring().next().map_or(0, |(degree, _)| degree),
            median: quantile(occurring(), users.div_ceil(2)),
            mean: sum as f64 / users as f64,
            p99: quantile(occurring(), (users * 99).div_ceil(100)),
            max,
            histogram: histogram(occurring()),
            power_law: PowerLaw::fit(occurring(), tail_from),
            at_least: at_least(occurring(), users),
        }
    }
}

/// Returns the smallest degree that at least `rank` users do not exceed.
fn quantile(occurring: impl Iterator<Item = (u32, u64)>, rank: u64) -> u32 {
    let mut seen = 0;
    for (degree, users) in occurring {
        seen += users;
        if seen >= rank {
            return degree;
        }
    }
    0
}

fn histogram(occurring: impl Iterator<Item = (u32, u64)>) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    for (degree, users) in occurring {
        loop {
            match bins.last_mut() {
                Some(bin) if degree <= bin.to => {
                    bin.users += users;
                    break;
                }
                // Bins between two nonempty ones are included, with no users.
                Some(bin) => {
                    let from = bin.to + 1;
                    bins.push(bin_from(from));
                }
                None => bins.push(bin_from(match degree {
                    0 => 0,
                    _ => 1 << degree.ilog2(),
                })),
            }
        }
    }
    bins
}

fn bin_from(from: u32) -> Bin {
    let to = match from {
        0 => 0,
        _ => from + (from - 1),
    };
    Bin { from, to, users: 0 }
}

fn at_least(occurring: impl Iterator<Item = (u32, u64)>, users: u64) -> Vec<(u32, u64)> {
    let mut left = users;
    occurring
        .map(|(degree, users)| {
            let at_least = left;
            left -= users;
            (degree, at_least)
        })
        .collect()
}

impl PowerLaw {
    /// Fits the tail by equation 3.7 of Clauset, Shalizi and Newman, Power-law distributions in
    /// empirical data (2009): `1 + n / sum(ln(k / (from - 1/2)))` over the `n` users of the tail.
    fn fit(occurring: impl Iterator<Item = (u32, u64)>, from: u32) -> Option<Self> {
        let (mut users, mut logs) = (0, 0.0);
        for (degree, with) in occurring.filter(|(degree, _)| *degree >= from) {
            users += with;
            logs += with as f64 * (f64::from(degree) / (f64::from(from) - 0.5)).ln();
        }
        if users < TAIL_MIN {
            return None;
        }
        let exponent = 1.0 + users as f64 / logs;
        Some(Self {
            exponent,
            error: (exponent - 1.0) / (users as f64).sqrt(),
            from,
            users,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::friends::{End, Options, write};
    use client::random::Random;

    #[test]
    fn the_statistics_agree_with_a_sorted_list() {
        let mut random = Random::seeded(5);
        let mut degrees: Vec<u32> = (0..1001).map(|_| 3 + random.below(200) as u32).collect();
        let found = Distribution::of(&degrees, 20);
        degrees.sort_unstable();
        assert_eq!((found.min, found.max), (degrees[0], degrees[1000]));
        assert_eq!((found.median, found.p99), (degrees[500], degrees[990]));
        let mean = degrees.iter().sum::<u32>() as f64 / 1001.0;
        assert!((found.mean - mean).abs() < 1e-9);
        for bin in &found.histogram {
            let within = |degree: &&u32| (bin.from..=bin.to).contains(*degree);
            assert_eq!(degrees.iter().filter(within).count() as u64, bin.users);
        }
        assert_eq!(
            found.histogram.iter().map(|bin| bin.users).sum::<u64>(),
            1001
        );
        for (degree, users) in found.at_least {
            let more = degrees.iter().filter(|&&other| other >= degree).count();
            assert_eq!(more as u64, users);
        }
    }

    #[test]
    fn bins_are_powers_of_two_without_a_gap() {
        let bins = Distribution::of(&[0, 3, 3, 20], 20).histogram;
        let bins: Vec<_> = bins
            .iter()
            .map(|bin| (bin.from, bin.to, bin.users))
            .collect();
        assert_eq!(
            bins,
            [
                (0, 0, 1),
                (1, 1, 0),
                (2, 3, 2),
                (4, 7, 0),
                (8, 15, 0),
                (16, 31, 1)
            ]
        );
    }

    #[test]
    fn a_known_power_law_is_recovered() {
        // By inversion: the share of users with at least k is ((k - 1/2) / (from - 1/2))^-(a - 1).
        let (mut random, from, exponent) = (Random::seeded(9), 20.0, 2.5);
        let degrees: Vec<u32> = (0..100_000)
            .map(|_| {
                let share = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
                ((from - 0.5) * (1.0 - share).powf(-1.0 / (exponent - 1.0)) + 0.5) as u32
            })
            .collect();
        let found = Distribution::of(&degrees, 20).power_law.unwrap();
        assert_eq!(found.users, 100_000);
        assert!(
            (found.exponent - exponent).abs() < 4.0 * found.error,
            "{found:?}"
        );
    }

    #[test]
    fn a_generated_graph_has_the_theoretical_exponent() {
        let options = Options {
            users: 200_000,
            degree: 5,
            seed: 1,
        };
        let Ok(End::Written(report)) = write(options, None, &mut std::io::sink(), |_| true) else {
            panic!("it is written");
        };
        let found = report.degrees.power_law.unwrap();
        assert_eq!(found.from, 20);
        // The discrete approximation itself is 0.07 too low for this tail.
        assert!(
            (found.exponent - 3.0).abs() < 0.07 + 4.0 * found.error,
            "{found:?}"
        );
        assert_eq!((report.degrees.min, report.degrees.median), (5, 7));
    }

    #[test]
    fn a_short_tail_is_not_fitted() {
        assert!(Distribution::of(&[30; 49], 20).power_law.is_none());
        assert!(Distribution::of(&[19; 99], 20).power_law.is_none());
    }
}
