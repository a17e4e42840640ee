//! Random lives of a whole server: the control API with its receipts, the router, the graph with
//! its store and writer, the workers, the node of an Erlang cluster and the history, over simulated
//! connections, disk and clock.
//!
//! One thread runs everything, and the dice say who takes the next step. Publishers change
//! subscriptions and publish with requests that arrive in parts, processes of other Erlang nodes do
//! the same and follow, nodes vanish with their processes, clients follow and come back, the disk
//! fails, fills up and loses power, and the process is killed in the middle of a write and
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

use simulated::{Dice, Trace, assert_lives_pass, assert_the_same_seed_is_the_same_life};

use self::life::Life;

impl simulated::Life for Life {
    const STEPS: u32 = 200;

    fn begin(seed: u64, trace: Trace) -> Self {
        Self::new(seed, trace)
    }

    fn step(&mut self, dice: &mut Dice) {
        self.step(dice);
    }

    fn end(&mut self, dice: &mut Dice) {
        self.note(|| "the faults stop".to_owned());
        self.heal();
        self.run(Duration::from_secs(3));
        self.judge(dice);
        self.end();
    }

    fn digest(&self) -> u64 {
        self.digest()
    }

    fn happened(&self) -> Vec<(String, u64)> {
        self.happened()
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_no_receipt_is_untrue_whatever_fails() {
    assert_lives_pass::<Life>(200);
}

#[test]
fn the_same_seed_is_the_same_life() {
    assert_the_same_seed_is_the_same_life::<Life>(20);
}
