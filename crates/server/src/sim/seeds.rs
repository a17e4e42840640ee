//! Lives from seeds: a failing one is reduced to the steps that it needs, and told.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What has happened in a life, for whoever reads of a failure.
pub type Trace = Rc<RefCell<Vec<String>>>;

/// Runs lives of so many steps, each with the steps that `live` is given: as many as `SEEDS` says,
/// or `usual`, from the seed `SEED` on. Hands each to `lived`, and returns their number.
///
/// # Panics
///
/// If a life fails: with its seed, and what happens in the steps that it needs.
pub fn lives<T>(
    steps: u32,
    usual: u64,
    live: impl Fn(u64, &[u32], &Trace) -> T,
    mut lived: impl FnMut(T),
) -> u64 {
    let (first, seeds) = (variable("SEED", 0), variable("SEEDS", usual));
    for seed in first..first + seeds {
        let trace = Trace::default();
        let all: Vec<_> = (0..steps).collect();
        let attempt = |steps: &[u32]| {
            trace.borrow_mut().clear();
            catch_unwind(AssertUnwindSafe(|| live(seed, steps, &trace))).map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
                text.unwrap_or_else(|| "a panic without a text".to_owned())
            })
        };
        if let Ok(life) = attempt(&all) {
            lived(life);
            continue;
        }
        let needed = shrink(all, |steps| attempt(steps).is_err());
        let reason = attempt(&needed).err().unwrap_or_default();
        let trace = trace.borrow().join("\n");
        panic!("SEED={seed} fails, of its {steps} steps with these alone:\n{trace}\n{reason}");
    }
    seeds
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

fn variable(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |it| it.parse().expect("a number"))
}

#[test]
fn a_failure_is_told_with_the_steps_that_it_needs() {
    let fails = |steps: &[u32]| [3, 77, 78].iter().all(|step| steps.contains(step));
    assert_eq!(shrink((0..160).collect(), fails), [3, 77, 78]);
    assert!(shrink(vec![5], |_| true).is_empty());
}
