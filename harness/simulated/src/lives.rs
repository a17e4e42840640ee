//! Lives from seeds: a failing one is reduced to the steps that it needs, and told.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::dice::Dice;

/// What has happened in a life, for whoever reads of a failure.
pub type Trace = Rc<RefCell<Vec<String>>>;

/// A random life of what is simulated, step by step. Panics where a law does not hold.
pub trait Life {
    /// Steps of a life.
    const STEPS: u32;

    /// Begins a life of a kind that depends on the seed.
    fn begin(seed: u64, trace: Trace) -> Self;

    /// Takes a step.
    fn step(&mut self, dice: &mut Dice);

    /// Lets the faults stop, judges what must be so then, and ends.
    fn end(&mut self, dice: &mut Dice);

    /// Returns a number for all that the simulated parts have done so far.
    fn digest(&self) -> u64;

    /// Returns what lives must bring about, each in one of a hundred at least, and how often this
    /// one has.
    fn happened(&self) -> Vec<(String, u64)>;
}

/// Runs these steps of a life. Each has dice of its own, so that others can be left out. Returns a
/// digest behind each step and one in the end, and what has happened.
fn live<L: Life>(seed: u64, steps: &[u32], trace: &Trace) -> (Vec<u64>, Vec<(String, u64)>) {
    let mut life = L::begin(seed, Trace::clone(trace));
    let mut digests = Vec::new();
    for &step in steps {
        let mut dice = Dice::new(seed.wrapping_mul(1_000_003) ^ u64::from(step));
        dice.roll(2);
        trace.borrow_mut().push(format!("step {step}"));
        life.step(&mut dice);
        digests.push(life.digest());
    }
    life.end(&mut Dice::new(seed));
    digests.push(life.digest());
    (digests, life.happened())
}

/// Runs the whole life of a seed.
///
/// # Panics
///
/// If a law does not hold in it.
pub fn assert_life_passes<L: Life>(seed: u64) {
    with_seed(seed, || {
        live::<L>(seed, &all_steps::<L>(), &Trace::default())
    });
}

/// Runs lives: as many as `SEEDS` says, or `usual`, from the seed `SEED` on.
///
/// # Panics
///
/// If a life fails: with its seed, and what happens in the steps that it needs. If something that
/// must happen is too rare.
pub fn assert_lives_pass<L: Life>(usual: u64) {
    let seeds = seeds(usual);
    let mut lives_with = BTreeMap::new();
    for seed in seeds.clone() {
        let trace = Trace::default();
        let attempt = |steps: &[u32]| {
            trace.borrow_mut().clear();
            let lived = catch_unwind(AssertUnwindSafe(|| live::<L>(seed, steps, &trace)));
            lived.map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
                text.unwrap_or_else(|| "a panic without a text".to_owned())
            })
        };
        if let Ok((_, happened)) = attempt(&all_steps::<L>()) {
            for (what, count) in happened {
                *lives_with.entry(what).or_insert(0) += u64::from(count > 0);
            }
            continue;
        }
        let needed = shrink(all_steps::<L>(), |steps| attempt(steps).is_err());
        let reason = attempt(&needed).err().unwrap_or_default();
        let trace = trace.borrow().join("\n");
        panic!(
            "SEED={seed} fails, of its {} steps with these alone:\n{trace}\n{reason}",
            L::STEPS
        );
    }
    let seeds = seeds.end - seeds.start;
    for (what, lives) in lives_with {
        assert!(
            lives >= seeds / 100,
            "{what} happened in {lives} of {seeds} lives"
        );
    }
}

/// Runs the first `seeds` lives twice.
///
/// # Panics
///
/// If a second run differs from the first.
pub fn assert_the_same_seed_is_the_same_life<L: Life>(seeds: u64) {
    for seed in 0..seeds {
        let steps = all_steps::<L>();
        let traces = [Trace::default(), Trace::default()];
        let [once, again] = [0, 1].map(|nth: usize| live::<L>(seed, &steps, &traces[nth]).0);
        let mut digests = once.iter().zip(&again);
        let differs = digests.position(|(one, other)| one != other);
        assert_eq!(
            differs, None,
            "step of seed {seed} in which two runs differ"
        );
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}

/// Runs something that a seed decides. Tells the seed if it panics.
pub fn with_seed<T>(seed: u64, run: impl FnOnce() -> T) -> T {
    struct Told(u64);
    impl Drop for Told {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("seed {} fails", self.0);
            }
        }
    }
    let _told = Told(seed);
    run()
}

fn all_steps<L: Life>() -> Vec<u32> {
    (0..L::STEPS).collect()
}

/// Leaves out what a failure does not need: halves first, single items last.
fn shrink(mut steps: Vec<u32>, fails: impl Fn(&[u32]) -> bool) -> Vec<u32> {
    let mut size = steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < steps.len() {
            let end = (at + size).min(steps.len());
            let fewer = [&steps[..at], &steps[end..]].concat();
            if fails(&fewer) {
                steps = fewer;
            } else {
                at = end;
            }
        }
        size /= 2;
    }
    steps
}

/// Returns the seeds of a test. `SEEDS=100000` sets their number, `SEED=7` the first one.
///
/// # Panics
///
/// If one of these is not a number.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str, usual| {
        let text = std::env::var(name).ok();
        text.map_or(usual, |it| it.parse().expect("a number"))
    };
    let first = number("SEED", 0);
    first..first + number("SEEDS", usual)
}

#[test]
fn a_failure_is_told_with_the_steps_that_it_needs() {
    let fails = |steps: &[u32]| [3, 77, 78].iter().all(|step| steps.contains(step));
    assert_eq!(shrink((0..160).collect(), fails), [3, 77, 78]);
    assert!(shrink(vec![5], |_| true).is_empty());
}
