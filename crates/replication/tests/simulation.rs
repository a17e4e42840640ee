//! Simulation of nodes with writers and readers on one log, with faults. A seed reproduces a run.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod simulation {
    pub(crate) mod ledger;
    pub(crate) mod node;
    pub(crate) mod world;
}

use std::panic::{AssertUnwindSafe, catch_unwind};

use simulated::seeds;
use simulation::world::{Mistake, World};

/// Runs a seed. Returns the number of appends that were acknowledged.
fn run(seed: u64, mistake: Option<Mistake>) -> usize {
    let mut world = World::new(seed, mistake);
    world.run();
    world.check()
}

#[test]
fn acknowledged_commands_are_applied_once_and_in_order_whatever_fails() {
    let seeds = seeds(2000);
    let mut counted = 0;
    for seed in seeds.clone() {
        let run = catch_unwind(AssertUnwindSafe(|| run(seed, None)));
        counted += run.unwrap_or_else(|_| panic!("seed {seed} breaks a law"));
    }
    // Most appends must count for the checks to be meaningful.
    let runs = seeds.end - seeds.start;
    assert!(counted as u64 > 20 * runs, "{counted} of {runs} runs");
}

/// The crate cannot prevent mistakes of a driver, but the checks must detect each of them.
#[test]
fn each_mistake_of_a_driver_is_detected() {
    for mistake in Mistake::ALL {
        let is_found = |seed| catch_unwind(AssertUnwindSafe(|| run(seed, Some(mistake)))).is_err();
        assert!((0..300).any(is_found), "{mistake:?} is not found");
    }
}
