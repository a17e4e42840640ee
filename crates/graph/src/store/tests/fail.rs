//! Failing disks under a running server.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

use simulated::Dice;
use simulated::disk::{Faults, Nth};

use super::super::Store;
use super::crash::{World, changes, edges, empty_file, filled_file};
use crate::limits::Limits;
use crate::store::disk::Disk;
use crate::writer::Writer;
use crate::{Change, GraphError, Id, RowChanges};

// No other test would notice a sync that does nothing.
#[test]
fn a_sync_of_a_file_calls_the_kernel() {
    let file = tempfile::tempfile().expect("a file");
    assert!(Disk::sync(&file).is_ok());
    // The kernel refuses to sync a character device.
    let device = File::open("/dev/null").expect("a device");
    assert!(Disk::sync(&device).is_err());
}

/// A file that counts its syncs.
#[derive(Debug)]
struct Counted(File, AtomicU64);

impl Disk for Counted {
    fn len(&self) -> io::Result<u64> {
        Disk::len(&self.0)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Disk::set_len(&self.0, len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Disk::sync(&self.0)
    }

    fn forget_cached(&self) {
        self.0.forget_cached();
    }

    fn has_room(&self, bytes: u64) -> io::Result<()> {
        self.0.has_room(bytes)
    }
}

#[test]
fn each_change_is_acknowledged_after_a_sync() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&empty_file()).expect("room");
    let disk = Arc::new(Counted(file, AtomicU64::new(0)));
    let shared: Arc<dyn Disk> = disk.clone();
    let (store, memory) = Store::open(shared, Limits::SMALL).expect("a graph");
    let writer = Writer::start(store, Arc::new(memory)).expect("a thread");
    for subscriber in 1..20_u32 {
        let change = Change::Subscribe {
            subscriber: subscriber.into(),
            subject: 0.into(),
        };
        let before = disk.1.load(Ordering::Relaxed);
        let (answer, answered) = sync_channel(1);
        let counted = Arc::clone(&disk);
        writer.submit(vec![change], move |effects| {
            let syncs = counted.1.load(Ordering::Relaxed);
            answer.send((effects, syncs)).expect("it is awaited");
        });
        let (effects, syncs) = answered.recv().expect("every change is answered");
        assert!(effects[0].is_ok() && syncs > before, "{subscriber}");
    }
}

#[test]
fn a_failed_sync_fails_only_its_commit_and_later_ones_survive_a_power_loss() {
    // Blocks that a sweep has rewritten are not undone with the failed commit, so they must still
    // reach the disk. The graph has many pages of blocks, and the later commits are in the middle
    // of a sweep.
    let start = filled_file();
    for commit in (0..8).chain([24, 32, 40, 48]) {
        for offset in 1..=2 {
            let mut world = World::open(start.clone());
            let mut random = Dice::new(commit);
            for _ in 0..commit {
                assert!(world.commit(&changes(&mut random, 900)));
            }
            world.disk.set(Faults {
                failed_at: Some(Nth::Sync(world.disk.syncs() + offset)),
                ..Faults::default()
            });
            let mut failed = 0;
            for _ in 0..6 {
                failed += usize::from(!world.commit(&changes(&mut random, 900)));
                assert_eq!(edges(&world.memory), world.model);
            }
            assert_eq!(failed, 1, "commit {commit}, sync {offset}");
            let after = World::open(world.disk.after_power_loss(None));
            assert_eq!(after.model, world.model, "commit {commit}, sync {offset}");
            let after = World::open(world.disk.after_kill());
            assert_eq!(after.model, world.model, "commit {commit}, sync {offset}");
        }
    }
}

// It was answered while the failed commit could still be in the file: the subscription that had
// been refused, and that was not there by the second answer, was there after a crash.
#[test]
fn a_change_without_effect_is_true_after_a_failed_commit() {
    let (subscriber, subject) = (
        Id::integer(1).expect("an id"),
        Id::integer(2).expect("an id"),
    );
    let add = Change::Subscribe {
        subscriber: subscriber.clone(),
        subject: subject.clone(),
    };
    let remove = Change::Unsubscribe {
        subscriber,
        subject,
    };
    for offset in 1..=2 {
        let mut world = World::open(empty_file());
        world.disk.set(Faults {
            failed_at: Some(Nth::Sync(world.disk.syncs() + offset)),
            ..Faults::default()
        });
        assert!(!world.commit(std::slice::from_ref(&add)));
        assert!(world.commit(std::slice::from_ref(&remove)));
        assert!(world.model.is_empty());
        for left in [world.disk.after_power_loss(None), world.disk.after_kill()] {
            assert_eq!(World::open(left).model, world.model, "sync {offset}");
        }
    }
}

#[test]
fn a_full_disk_refuses_changes_until_there_is_room() {
    let mut world = World::open(empty_file());
    let mut random = Dice::new(5);
    let mut size = 30;
    let mut commit = |world: &mut World| {
        size += 100;
        world.commit(&changes(&mut random, size))
    };
    assert!(commit(&mut world));
    let room = world.disk.used();
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
        World::open(world.disk.after_power_loss(None)).model,
        world.model
    );
}

#[test]
fn the_error_of_a_failed_write_has_the_cause() {
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
    let error = world
        .store
        .commit(&batch.net(), 0, &RowChanges::new())
        .unwrap_err();
    let cause = "the cable is out".into();
    assert_eq!(error, GraphError::Disk { cause });
    drop(batch);
    world.disk.set(Faults::default());
    assert!(world.commit(&[change]));
}

#[test]
fn a_change_is_neither_visible_nor_acknowledged_before_it_is_on_disk() {
    let world = World::open(empty_file());
    let (disk, memory) = (world.disk, Arc::new(world.memory));
    let writer = Writer::start(world.store, Arc::clone(&memory)).expect("a thread");
    let subscribe = || {
        let change = Change::Subscribe {
            subscriber: 1.into(),
            subject: 2.into(),
        };
        let (answer, answered) = sync_channel(1);
        writer.submit(vec![change], move |effects| {
            answer.send(effects).expect("it is awaited");
        });
        let effects = answered.recv().expect("every change is answered");
        (effects[0].is_ok(), edges(&memory).len())
    };
    disk.set(Faults {
        writes_fail: true,
        ..Faults::default()
    });
    assert_eq!(subscribe(), (false, 0));
    disk.set(Faults::default());
    assert_eq!(subscribe(), (true, 1));
    writer.end();
    let found = World::open(disk.after_power_loss(None));
    assert_eq!(found.model, edges(&memory));
}
