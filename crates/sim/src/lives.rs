//! Random lives of a whole server: the control API with its receipts, the router, the graph with
//! its store and writer, the workers and the history, over simulated connections, disk and clock.
//!
//! One thread runs everything, and the dice say who takes the next step. Publishers change
//! subscriptions and publish with requests that arrive in parts, clients follow and come back, the
//! disk fails, fills up and loses power, and the process is killed in the middle of a write and
//! starts again with what the disk has. Nothing that was acknowledged may be lost, nothing be
//! invented, no receipt be untrue, and no event reach whom it is not for. Then the faults stop:
//! every request must be answered, what is owed must arrive, and nothing may be left of anybody.
//!
//! What the disk holds after a crash may differ from what was acknowledged only in changes whose
//! answers had not come, or were errors of the disk. Whom an event must or must not reach is known
//! from the acknowledged changes; those under way may count or not.
//!
//! `SEEDS=100000` runs that many lives, `SEED=7` begins with that one.

/// A server on a simulated disk, from its start to its crash.
mod process;
/// Simulated connections of the control API.
mod connection;
/// Publishers: clients of the control API.
mod publisher;
/// Subscriptions, as far as their changes were acknowledged.
mod edges;
/// The steps of a life, and what the model knows after each of them.
mod life;

use std::time::Duration;

use server::sim::{Dice, Trace, lives};

use self::life::{HAPPENED, Life};

/// Steps of a life.
const STEPS: u32 = 200;

/// A life that did not fail.
struct Lived {
    /// What the server had asked of its networks and its disk behind each step, and in the end.
    digests: Vec<u64>,
    /// How often each of [`HAPPENED`] was seen.
    happened: [u64; HAPPENED.len()],
}

/// Runs these steps of a life.
fn live(seed: u64, steps: &[u32], trace: &Trace) -> Lived {
    let mut life = Life::new(seed, Trace::clone(trace));
    let mut digests = Vec::new();
    for &step in steps {
        let mut dice = Dice::new(seed.wrapping_mul(1_000_003) ^ u64::from(step));
        dice.roll(2);
        life.note(|| format!("step {step}"));
        life.step(&mut dice);
        digests.push(life.digest());
    }
    life.note(|| "the faults stop".to_owned());
    life.heal();
    life.run(Duration::from_secs(3));
    life.judge(&mut Dice::new(seed));
    life.end();
    digests.push(life.digest());
    Lived {
        digests,
        happened: life.happened(),
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_no_receipt_is_untrue_whatever_fails() {
    let mut lives_with = [0; HAPPENED.len()];
    let seeds = lives(STEPS, 200, live, |lived| {
        let counts = lives_with.iter_mut().zip(lived.happened);
        counts.for_each(|(lives, count)| *lives += u64::from(count > 0));
    });
    for (what, lives) in HAPPENED.into_iter().zip(lives_with) {
        assert!(
            lives >= seeds / 100,
            "{what:?} happened in {lives} of {seeds} lives"
        );
    }
}

#[test]
fn the_same_seed_is_the_same_life() {
    for seed in 0..20 {
        let steps: Vec<_> = (0..STEPS).collect();
        let traces = [Trace::default(), Trace::default()];
        let [once, again] = [0, 1].map(|nth: usize| live(seed, &steps, &traces[nth]));
        let mut digests = once.digests.iter().zip(&again.digests);
        let differs = digests.position(|(one, other)| one != other);
        assert_eq!(
            differs, None,
            "step of seed {seed} in which two runs differ"
        );
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}
