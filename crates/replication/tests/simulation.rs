//! Simulation: nodes with writers and readers over one log, and everything that goes wrong between
//! them. A seed reproduces a run.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod simulation {
    pub(crate) mod ledger;
    pub(crate) mod node;
    pub(crate) mod random;
    pub(crate) mod world;
}

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use simulation::world::{Mistake, World};

/// Seeds of one run of the tests. `SEEDS=100000` runs more, `SEED=7` begins with that one.
fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str, usual| {
        let text = std::env::var(name).ok();
        text.map_or(usual, |it| it.parse().expect("a number"))
    };
    let first = number("SEED", 0);
    first..first + number("SEEDS", usual)
}

/// Runs a seed, and returns how many appends were known to count.
fn run(seed: u64, mistake: Option<Mistake>) -> usize {
    let mut world = World::new(seed, mistake);
    world.run();
    world.check()
}

#[test]
fn nothing_acknowledged_is_lost_twice_or_in_another_order_whatever_fails() {
    let seeds = seeds(2000);
    let mut counted = 0;
    for seed in seeds.clone() {
        let run = catch_unwind(AssertUnwindSafe(|| run(seed, None)));
        counted += run.unwrap_or_else(|_| panic!("seed {seed} breaks a law"));
    }
    // Most appends count, so the laws say something.
    let runs = seeds.end - seeds.start;
    assert!(counted as u64 > 20 * runs, "{counted} of {runs} runs");
}

/// Mistakes of a driver, which the crate cannot prevent. Each must break a law soon.
#[test]
fn each_mistake_of_a_driver_is_found() {
    for mistake in Mistake::ALL {
        let is_found = |seed| catch_unwind(AssertUnwindSafe(|| run(seed, Some(mistake)))).is_err();
        assert!((0..300).any(is_found), "{mistake:?} is not found");
    }
}
