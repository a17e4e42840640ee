//! A model of the splice of replayed and live events, with each race that it must survive.
//!
//! Publishers, one worker, one session and its client take small steps in random order, as threads
//! and networks do. The oracle: a client that returns gets every event after its cursor, none of
//! them twice in one connection, or a reset. A planted bug must break one of the two.

mod client;
mod model;

use model::{Bug, run};

/// Schedules tried without a bug.
const SOUND: u64 = 20_000;

/// Schedules tried at most until a planted bug shows.
const PLANTED: u64 = 200_000;

#[test]
fn a_returning_client_gets_each_event_once_or_a_reset() {
    for seed in 0..SOUND {
        if let Err(fault) = run(seed, None) {
            panic!("seed {seed}: {fault:?}");
        }
    }
}

#[test]
fn each_planted_race_is_found() {
    for bug in Bug::ALL {
        let found = (0..PLANTED).find(|&seed| run(seed, Some(bug)).is_err());
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
