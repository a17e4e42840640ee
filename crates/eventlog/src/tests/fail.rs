//! Disks that fail while the server goes on.

use std::time::Duration;

use simulated::Dice;
use simulated::disk::{Faults, Nth};

use super::world::{End, World};
use crate::settings::SyncPolicy;

const INTERVAL: SyncPolicy = SyncPolicy::Interval(Duration::from_millis(100));

fn play(world: &mut World, dice: &mut Dice, steps: u32) {
    for _ in 0..steps {
        world.publish(dice);
        world.step(50);
    }
}

#[test]
fn events_go_on_while_the_disk_is_full_and_later_readers_learn_of_the_gap() {
    for sync in [INTERVAL, SyncPolicy::Receipt] {
        for room in [9_000, 10_000, 10_111, 12_345] {
            for has_room_again in [false, true] {
                let mut world = World::new(sync);
                let mut dice = Dice::new(7);
                world.disk.set(Faults {
                    room: Some(room),
                    ..Faults::default()
                });
                play(&mut world, &mut dice, 60);
                let stats = world.stats();
                assert!(stats.has_failed && stats.unstored > 0, "{stats:?}");
                // In memory nothing is missing.
                world.check_memory();
                if has_room_again {
                    world.disk.set(Faults::default());
                    play(&mut world, &mut dice, 60);
                    assert!(!world.stats().has_failed);
                    let unstored = world.stats().unstored;
                    play(&mut world, &mut dice, 5);
                    assert_eq!(world.stats().unstored, unstored);
                }
                world.disk.set(Faults::default());
                world.restart(End::Kill).expect("the disk works");
            }
        }
    }
}

#[test]
fn a_failure_of_any_operation_leaves_no_client_in_the_dark() {
    for sync in [INTERVAL, SyncPolicy::Receipt] {
        for end in [End::Kill, End::PowerLoss(11)] {
            for failed_at in 1..120 {
                let mut world = World::new(sync);
                world.disk.set(Faults {
                    failed_at: Some(Nth::Operation(failed_at)),
                    ..Faults::default()
                });
                let mut dice = Dice::new(7);
                play(&mut world, &mut dice, 40);
                world.disk.set(Faults::default());
                world.step(2000);
                play(&mut world, &mut dice, 2);
                assert!(!world.stats().has_failed, "it works again");
                world.check_memory();
                world.restart(end).expect("the disk works");
            }
        }
    }
}

#[test]
fn a_disk_that_fails_for_long_is_tried_less_and_less_often_and_used_again() {
    let mut world = World::new(INTERVAL);
    let mut dice = Dice::new(7);
    play(&mut world, &mut dice, 5);
    world.disk.set(Faults {
        all_fail: true,
        ..Faults::default()
    });
    play(&mut world, &mut dice, 2000);
    let failures = world.stats().failures;
    assert!((5..12).contains(&failures), "{failures} in 100 s");
    world.disk.set(Faults::default());
    play(&mut world, &mut dice, 1300);
    assert!(!world.stats().has_failed);
    world.end();
    world.restart(End::PowerLoss(1)).expect("the disk works");
}

// It could take a minute after an hour without room.
#[test]
fn a_disk_that_was_full_for_long_is_used_within_five_seconds_of_room() {
    let mut world = World::new(INTERVAL);
    let mut dice = Dice::new(7);
    world.disk.set(Faults {
        room: Some(9_000),
        ..Faults::default()
    });
    play(&mut world, &mut dice, 2000);
    assert!(world.stats().has_failed);
    world.disk.set(Faults::default());
    play(&mut world, &mut dice, 100);
    assert!(!world.stats().has_failed, "five seconds later");
}

#[test]
fn too_many_events_for_the_disk_are_kept_in_memory_and_later_readers_learn_of_the_gap() {
    let mut world = World::new(INTERVAL);
    let mut dice = Dice::new(7);
    for _ in 0..60 {
        world.publish(&mut dice);
    }
    world.step(1);
    assert!(world.stats().unstored > 0);
    assert!(!world.stats().has_failed);
    world.check_memory();
    for _ in 0..5 {
        world.publish(&mut dice);
    }
    world.step(1);
    world.restart(End::Kill).expect("the disk works");
}

#[test]
fn a_disk_that_cannot_reserve_positions_keeps_a_server_from_its_start() {
    let world = World::new(INTERVAL);
    let disk = world.disk.after_kill();
    disk.set(Faults {
        all_fail: true,
        ..Faults::default()
    });
    let refused = World::open(disk.clone(), INTERVAL, "boot-0", world.settled_model());
    assert!(refused.is_err());
    // A full one does not.
    disk.set(Faults {
        room: Some(0),
        ..Faults::default()
    });
    let mut world = World::open(disk, INTERVAL, "boot-0", Default::default()).expect("it starts");
    assert!(world.stats().has_failed);
    play(&mut world, &mut Dice::new(3), 30);
    world.check_memory();
    world.disk.set(Faults::default());
    world.restart(End::Kill).expect("the disk works");
}
