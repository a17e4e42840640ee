//! Subjects of events: ids drawn at random.
//!
//! Weighted draws use Walker's alias method with Vose's construction: eight bytes an id and
//! constant time for each draw.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::friends::{self, USERS_MAX};
use client::random::Random;
use machine::failure::{Context, Failure, Outcome};

/// Distribution of the subjects.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetDistribution {
    /// Each id from 1 to `max_id` with the same probability.
    Uniform {
        /// Largest id.
        max_id: u32,
    },
    /// Id `k` from 1 to `max_id` in proportion to `k^-exponent`.
    Zipf {
        /// Largest id.
        max_id: u32,
        /// From 0 (uniform) to 100; 1 is Zipf's law.
        exponent: f64,
    },
    /// Each id of an edge list in proportion to its degree.
    Degree {
        /// Path of the edge list, with one edge `a b` on each line.
        graph: PathBuf,
        /// Larger ids are ignored.
        max_id: u32,
    },
}

/// Generator of subjects.
#[derive(Debug)]
pub(super) struct Targets {
    random: Random,
    max_id: u32,
    /// `None` for a uniform draw.
    aliases: Option<AliasTable>,
}

impl TargetDistribution {
    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// If `max_id` or the exponent is out of range.
    pub fn check(&self) -> Outcome<()> {
        let max_id = match self {
            Self::Uniform { max_id } | Self::Zipf { max_id, .. } | Self::Degree { max_id, .. } => {
                *max_id
            }
        };
        if !(1..=USERS_MAX).contains(&max_id) {
            return Err(Failure::new(format!(
                "the largest id cannot be {max_id}: give one from 1 to {USERS_MAX}"
            )));
        }
        match self {
            Self::Zipf { exponent, .. } if !(0.0..=100.0).contains(exponent) => {
                Err(Failure::new(format!(
                    "the exponent cannot be {exponent}: give one from 0 to 100; 1 is Zipf's law"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Targets {
    /// Creates the generator; reads the graph for [`TargetDistribution::Degree`].
    pub(super) fn new(draw: &TargetDistribution, seed: u64) -> Outcome<Self> {
        draw.check()?;
        let (max_id, aliases) = match draw {
            TargetDistribution::Uniform { max_id } => (*max_id, None),
            TargetDistribution::Zipf { max_id, exponent } => {
                let weights = (1..=*max_id).map(|id| f64::from(id).powf(-exponent));
                (*max_id, Some(AliasTable::new(weights.collect())))
            }
            TargetDistribution::Degree { graph, max_id } => {
                let weights = degrees(graph, *max_id)?;
                (weights.len() as u32, Some(AliasTable::new(weights)))
            }
        };
        Ok(Self {
            random: Random::seeded(seed),
            max_id,
            aliases,
        })
    }

    /// Largest id that can be drawn.
    pub(super) fn max_id(&self) -> u32 {
        self.max_id
    }

    /// Draws the next id.
    pub(super) fn next(&mut self) -> u32 {
        let column = self.random.below(self.max_id.into()) as u32;
        match &self.aliases {
            None => column + 1,
            Some(aliases) => aliases.resolve(column, self.random.bits()) + 1,
        }
    }
}

/// Alias table: for each column, the probability (in units of 2^-32) that a draw keeps it, and the
/// column to return otherwise.
#[derive(Debug)]
struct AliasTable(Vec<(u32, u32)>);

impl AliasTable {
    /// Builds the table from weights, none negative and at least one positive.
    fn new(mut weights: Vec<f64>) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for (column, weight) in (0u32..).zip(&mut weights) {
            *weight *= scale;
            match *weight < 1.0 {
                true => small.push(column),
                false => large.push(column),
            }
        }
        // Columns left over at the end have probability 1; only rounding kept them from being
        // paired.
        let mut table: Vec<(u32, u32)> = (0..weights.len() as u32)
            .map(|column| (u32::MAX, column))
            .collect();
        while let (Some(&little), Some(&much)) = (small.last(), large.last()) {
            small.pop();
            let own = weights[little as usize];
            table[little as usize] = ((own * 2f64.powi(32)) as u32, much);
            weights[much as usize] -= 1.0 - own;
            if weights[much as usize] < 1.0 {
                large.pop();
                small.push(much);
            }
        }
        Self(table)
    }

    /// Returns the column or its alias, depending on the lower 32 of the random `bits`.
    fn resolve(&self, column: u32, bits: u64) -> u32 {
        let (own, alias) = self.0[column as usize];
        if (bits as u32) < own { column } else { alias }
    }
}

/// Reads the degree of each id, from 1 to the largest id that has an edge.
fn degrees(path: &Path, max_id: u32) -> Outcome<Vec<f64>> {
    let shown = path.display();
    let file = File::open(path).context(format_args!("opening {shown}"))?;
    let mut degrees = Vec::new();
    friends::read(BufReader::new(file), &shown, |ends| {
        for id in ends.into_iter().filter(|&id| id <= max_id) {
            if degrees.len() < id as usize {
                degrees.resize(id as usize, 0.0);
            }
            degrees[id as usize - 1] += 1.0;
        }
    })?;
    if degrees.is_empty() {
        return Err(Failure::new(format!(
            "{shown} has no edge between ids up to {max_id}: give another graph or a larger \
             --max-id"
        )));
    }
    Ok(degrees)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DRAWS: u32 = 1_000_000;

    /// Pearson's chi-square statistic of [`DRAWS`] draws against the expected shares.
    fn chi_square(draw: &TargetDistribution, expected: &[f64]) -> f64 {
        let mut targets = Targets::new(draw, 42).unwrap();
        assert_eq!(targets.max_id() as usize, expected.len());
        let mut counts = vec![0.0; expected.len()];
        for _ in 0..DRAWS {
            counts[targets.next() as usize - 1] += 1.0;
        }
        let sum: f64 = expected.iter().sum();
        counts
            .iter()
            .zip(expected)
            .filter(|(_, share)| **share > 0.0)
            .map(|(count, share)| {
                let expected = share / sum * f64::from(DRAWS);
                (count - expected) * (count - expected) / expected
            })
            .sum()
    }

    /// Value that the statistic exceeds once in a thousand times with `freedom` degrees of freedom,
    /// by the Wilson-Hilferty approximation.
    fn bound(freedom: f64) -> f64 {
        let spread = 2.0 / (9.0 * freedom);
        freedom * (1.0 - spread + 3.09 * spread.sqrt()).powi(3)
    }

    #[test]
    fn uniform_draws_are_as_frequent_as_expected() {
        let found = chi_square(&TargetDistribution::Uniform { max_id: 1000 }, &[1.0; 1000]);
        assert!(found < bound(999.0), "{found}");
    }

    #[test]
    fn zipf_draws_are_as_frequent_as_expected() {
        for exponent in [0.0, 0.8, 1.0, 1.5] {
            let expected: Vec<f64> = (1..=1000).map(|id| f64::from(id).powf(-exponent)).collect();
            let draw = TargetDistribution::Zipf {
                max_id: 1000,
                exponent,
            };
            let found = chi_square(&draw, &expected);
            assert!(found < bound(999.0), "{exponent}: {found}");
            // The check must notice a slightly wrong exponent.
            let off: Vec<f64> = (1..=1000)
                .map(|id| f64::from(id).powf(-exponent - 0.02))
                .collect();
            assert!(chi_square(&draw, &off) > bound(999.0), "{exponent}");
        }
    }

    #[test]
    fn draws_by_degree_are_as_frequent_as_expected() {
        let path = std::env::temp_dir().join(format!("encke-degrees-{}", std::process::id()));
        fs::write(&path, "# a star, and a pair\n2 1\n3 1\n\n4 1\n6 7\n").unwrap();
        let draw = |max_id| TargetDistribution::Degree {
            graph: path.clone(),
            max_id,
        };
        let found = chi_square(&draw(100), &[3.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
        let cut = chi_square(&draw(3), &[3.0, 1.0, 1.0]);
        let nothing = Targets::new(&draw(0), 1);
        fs::remove_file(&path).unwrap();
        assert!(found < bound(5.0) && cut < bound(2.0), "{found} {cut}");
        assert!(nothing.is_err());
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        assert!(TargetDistribution::Uniform { max_id: 0 }.check().is_err());
        let zipf = |exponent| TargetDistribution::Zipf {
            max_id: 5,
            exponent,
        };
        assert!(zipf(f64::NAN).check().is_err() && zipf(-1.0).check().is_err());
        assert!(zipf(1.0).check().is_ok());
    }
}
