//! Disks that fail while the server goes on.

use super::crash::{World, changes, edges, empty_file, filled_file};
use super::fake::Faults;

#[test]
fn a_failed_sync_fails_its_commit_alone_and_what_comes_after_survives_a_loss_of_power() {
    // Blocks that a sweep has rewritten are not undone with its commit, so they have to reach the
    // disk after all. The graph has many pages of them, and the later commits are in the midst of a
    // sweep.
    let start = filled_file();
    for commit in (0..8).chain([24, 32, 40, 48]) {
        for offset in 1..=2 {
            let mut world = World::open(start.clone());
            let mut random = commit;
            for _ in 0..commit {
                assert!(world.commit(&changes(&mut random, 900)));
            }
            world.disk.set(Faults {
                sync_failed_at: Some(world.disk.syncs() + offset),
                ..Faults::default()
            });
            let mut failed = 0;
            for _ in 0..6 {
                failed += usize::from(!world.commit(&changes(&mut random, 900)));
                assert_eq!(edges(&world.memory), world.model);
            }
            assert_eq!(failed, 1, "commit {commit}, sync {offset}");
            let after = World::open(world.disk.after_power_loss());
            assert_eq!(after.model, world.model, "commit {commit}, sync {offset}");
            let after = World::open(world.disk.after_kill());
            assert_eq!(after.model, world.model, "commit {commit}, sync {offset}");
        }
    }
}

#[test]
fn a_full_disk_refuses_changes_and_takes_them_again_when_there_is_room() {
    let mut world = World::open(empty_file());
    let mut random = 5;
    let mut size = 30;
    let mut commit = |world: &mut World| {
        size += 100;
        world.commit(&changes(&mut random, size))
    };
    assert!(commit(&mut world));
    let room = world.disk.after_kill().len() as u64;
    world.disk.set(Faults {
        room: Some(room),
        ..Faults::default()
    });
    let refused = (0..2000).find(|_| !commit(&mut world));
    assert!(refused.is_some(), "the disk never became full");
    for _ in 0..3 {
        assert!(!commit(&mut world));
        assert_eq!(edges(&world.memory), world.model);
    }
    world.disk.set(Faults::default());
    assert!(commit(&mut world));
    assert_eq!(
        World::open(world.disk.after_power_loss()).model,
        world.model
    );
}

#[test]
fn a_disk_that_cannot_be_written_says_why() {
    let mut world = World::open(empty_file());
    world.disk.set(Faults {
        writes_fail: true,
        ..Faults::default()
    });
    let change = crate::Change::Subscribe {
        subscriber: 1.into(),
        subject: 2.into(),
    };
    let mut batch = crate::batch::Batch::new(&world.memory);
    batch.add(&change).unwrap();
    let error = world.store.commit(&batch.net(), 0).unwrap_err();
    assert!(!error.full);
    assert_eq!(&*error.cause, "the cable is out");
    drop(batch);
    world.disk.set(Faults::default());
    assert!(world.commit(&[change]));
}
