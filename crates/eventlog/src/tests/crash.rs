//! Runs that are killed, or lose power, in every operation of the disk.

use std::time::Duration;

use simulated::Dice;
use simulated::disk::{Faults, Nth};

use super::world::{End, World};
use crate::settings::SyncPolicy;

const INTERVAL: SyncPolicy = SyncPolicy::Interval(Duration::from_millis(100));

/// Publishes for some steps, or until the server dies.
fn play(world: &mut World, dice: &mut Dice, steps: u32) {
    for step in 0..steps {
        for _ in 0..step % 4 {
            world.publish(dice);
        }
        world.step(30);
        if world.disk.is_killed() {
            return;
        }
    }
}

/// A run whose disk dies in one of its operations.
fn play_until(sync: SyncPolicy, killed_at: u64, dice: &mut Dice) -> World {
    let mut world = World::new(sync);
    world.disk.set(Faults {
        killed_at: Some(Nth::Operation(killed_at)),
        ..Faults::default()
    });
    play(&mut world, dice, STEPS);
    world
}

/// Operations of the disk in a run of so many steps.
fn operations(sync: SyncPolicy, steps: u32) -> u64 {
    let mut world = World::new(sync);
    play(&mut world, &mut Dice::new(7), steps);
    world.end();
    world.disk.operations()
}

const STEPS: u32 = 30;

#[test]
fn a_run_that_ends_as_it_should_loses_nothing() {
    for sync in [INTERVAL, SyncPolicy::Receipt] {
        let mut world = World::new(sync);
        let mut dice = Dice::new(3);
        for run in 1..=4 {
            play(&mut world, &mut dice, STEPS);
            world.end();
            let head = world.read(history::History::head);
            world = world.restart(End::PowerLoss(run)).expect("a whole disk");
            assert_eq!(world.recovery.start, crate::Start::Clean);
            assert_eq!(world.read(history::History::head), head);
            world.check_nothing_lost();
            assert!(world.recovery.warnings().is_empty());
        }
    }
}

#[test]
fn a_kill_in_any_operation_loses_nothing_acknowledged_and_repeats_no_position() {
    for sync in [INTERVAL, SyncPolicy::Receipt] {
        for killed_at in 1..=operations(sync, STEPS) {
            let mut dice = Dice::new(7);
            let mut world = play_until(sync, killed_at, &mut dice);
            if !world.disk.is_killed() {
                world.end();
            }
            // And again, soon after the start.
            world = world.restart(End::Kill).expect("the disk works");
            world.check_nothing_lost();
            play(&mut world, &mut dice, 3);
            world = world.restart(End::Kill).expect("the disk works");
            world.check_nothing_lost();
        }
    }
}

#[test]
fn power_lost_in_any_operation_loses_nothing_that_a_synced_receipt_told_of() {
    let sync = SyncPolicy::Receipt;
    for killed_at in 1..=operations(sync, STEPS) {
        for torn_by in [1, 77, 1234] {
            let mut dice = Dice::new(7);
            let mut world = play_until(sync, killed_at, &mut dice);
            world = world
                .restart(End::PowerLoss(torn_by))
                .expect("the disk works");
            world.check_nothing_lost();
            play(&mut world, &mut dice, 3);
            world = world.restart(End::Kill).expect("the disk works");
            world.check_nothing_lost();
        }
    }
}

#[test]
fn clients_learn_what_a_loss_of_power_took_between_two_syncs() {
    let mut lossy = 0;
    for killed_at in 1..=operations(INTERVAL, STEPS) {
        for torn_by in [1, 77, 1234] {
            let mut dice = Dice::new(7);
            let mut world = play_until(INTERVAL, killed_at, &mut dice);
            // `World::open` checks that no client is left in the dark.
            world = world
                .restart(End::PowerLoss(torn_by))
                .expect("the disk works");
            lossy += u32::from(world.recovery.start == crate::Start::Lossy);
            play(&mut world, &mut dice, 3);
            world.restart(End::Kill).expect("the disk works");
        }
    }
    assert!(lossy > 100, "only {lossy} runs");
}

#[test]
fn a_crash_in_any_operation_of_a_start_forgets_nothing_of_the_run_before() {
    let played = || {
        let mut world = World::new(INTERVAL);
        play(&mut world, &mut Dice::new(9), STEPS);
        world
    };
    for end in [End::Kill, End::PowerLoss(5)] {
        for killed_at in 1..20 {
            let world = played();
            let (disk, boot) = match end {
                End::Kill => (world.disk.after_kill(), "boot-0"),
                End::PowerLoss(torn) => (world.disk.after_power_loss(torn), "boot-1"),
            };
            let model = world.settled_model();
            disk.set(Faults {
                killed_at: Some(Nth::Operation(killed_at)),
                ..Faults::default()
            });
            // It died in its start, or has done nothing since.
            let model = match World::open(disk.clone(), INTERVAL, boot, model) {
                Ok(world) => world.settled_model(),
                Err(_) => played().settled_model(),
            };
            let disk = disk.after_kill();
            drop(World::open(disk, INTERVAL, boot, model).expect("the disk works"));
        }
    }
}

#[test]
fn starts_that_fail_again_and_again_leave_no_more_files_than_a_bound() {
    let mut world = World::new(INTERVAL);
    let mut dice = Dice::new(3);
    for _ in 0..200 {
        play(&mut world, &mut dice, 2);
        world = world.restart(End::Kill).expect("the disk works");
    }
    world.step(0);
    assert!(
        world.disk.names().len() < 70,
        "{}",
        world.disk.names().len()
    );
}
