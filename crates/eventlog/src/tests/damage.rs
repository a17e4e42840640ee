//! Files that were damaged, cut, deleted or come from elsewhere.

use std::time::Duration;

use simulated::Dice;
use simulated::disk::Disk;

use super::world::{Model, World};
use crate::error::OpenError;
use crate::recovery::Start;
use crate::segment::HEADER_BYTES;
use crate::settings::SyncPolicy;

const INTERVAL: SyncPolicy = SyncPolicy::Interval(Duration::from_millis(100));

/// Milliseconds between two steps; every second one syncs.
const STEP: u64 = 60;

/// When the last step begins.
const LAST: u64 = 39 * STEP;

/// The disk of a run with several segments, killed or ended, and what was published.
fn filled(is_ended: bool) -> (Disk, Model) {
    let mut world = World::new(INTERVAL);
    let mut dice = Dice::new(5);
    for _ in 0..40 {
        world.publish(&mut dice);
        world.step(STEP);
    }
    if is_ended {
        world.end();
    }
    let disk = world.disk.after_kill();
    assert!(segments(&disk).len() > 3);
    (disk, world.settled_model())
}

fn segments(disk: &Disk) -> Vec<String> {
    let mut names = disk.names();
    names.retain(|name| name.starts_with("segment-"));
    names
}

fn content(disk: &Disk, name: &str) -> Vec<u8> {
    disk.open(name).expect("it exists").content()
}

fn open(disk: Disk, model: Model) -> Result<World, OpenError> {
    World::open(disk, INTERVAL, "boot-0", model)
}

// `World::open` checks that no client is left in the dark.

#[test]
fn a_segment_that_is_missing_is_a_gap() {
    for is_ended in [false, true] {
        let count = segments(&filled(is_ended).0).len();
        for index in 0..count {
            let (disk, model) = filled(is_ended);
            disk.delete(&segments(&disk)[index]);
            // Without the last segment of a run that was killed nothing says what it had.
            if index + 1 < count || is_ended {
                open(disk, model).expect("the state is there");
            }
        }
    }
}

#[test]
fn a_damaged_byte_anywhere_is_a_gap_or_a_cut_tail() {
    for is_ended in [false, true] {
        let (disk, _) = filled(is_ended);
        let names = segments(&disk);
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len();
            let len = content(&disk, name).len();
            for at in (0..len).step_by(23) {
                let (disk, mut model) = filled(is_ended);
                disk.tamper(name, |bytes| bytes[at] ^= 0x10);
                if is_last && !is_ended {
                    // The end of a run that was killed may be torn: then what was in it counts as
                    // not written, unless a later mark says that it was.
                    let events = model.values_mut();
                    events.for_each(|event| event.doubt_since(LAST - 3 * STEP));
                }
                open(disk, model).expect("the state is there");
            }
        }
    }
}

#[test]
fn damage_in_what_was_synced_is_not_taken_for_a_torn_tail() {
    let (disk, model) = filled(false);
    let name = segments(&disk).pop().expect("there are some");
    disk.tamper(&name, |bytes| bytes[HEADER_BYTES + 30] ^= 1);
    let world = open(disk, model).expect("the state is there");
    assert_eq!(world.recovery.start, Start::Lossy);
    assert_eq!(world.recovery.damaged, [name]);
}

#[test]
fn damage_at_the_end_of_a_run_that_ended_as_it_should_is_not_cut() {
    let (disk, model) = filled(true);
    let name = segments(&disk).pop().expect("there are some");
    let len = content(&disk, &name).len();
    disk.tamper(&name, |bytes| bytes[len - 1] ^= 1);
    let world = open(disk, model).expect("the state is there");
    assert_eq!(
        (world.recovery.cut, world.recovery.start),
        (0, Start::Lossy)
    );
    assert_eq!(world.recovery.damaged, [name]);
}

#[test]
fn a_torn_tail_is_cut_and_said_once() {
    let (disk, model) = filled(false);
    let name = segments(&disk).pop().expect("there are some");
    disk.tamper(&name, |bytes| bytes.extend_from_slice(&[7; 100]));
    let world = open(disk, model).expect("the state is there");
    assert_eq!(
        (world.recovery.cut, world.recovery.start),
        (100, Start::Killed)
    );
    let again = world
        .restart(super::world::End::Kill)
        .expect("the disk works");
    assert_eq!(again.recovery.cut, 0);
    assert!(again.recovery.damaged.is_empty());
}

#[test]
fn a_state_that_is_torn_reserves_more_and_one_that_is_lost_is_refused() {
    for slot in [0, 4096] {
        let (disk, model) = filled(false);
        disk.tamper("state", |bytes| bytes[slot + 20] ^= 1);
        open(disk, model).expect("one slot is whole");
    }
    let (disk, model) = filled(false);
    disk.tamper("state", |bytes| bytes.fill(0));
    let before = disk.names();
    let refused = open(disk.clone(), model).err().expect("a refusal");
    assert!(
        refused
            .to_string()
            .contains("is damaged; nothing was changed")
    );
    disk.delete("state");
    let refused = open(disk.clone(), Model::new()).err().expect("a refusal");
    assert!(
        refused
            .to_string()
            .contains("is missing; nothing was changed")
    );
    assert_eq!(segments(&disk).len() + 1, before.len());
}

#[test]
fn files_of_a_newer_format_are_refused_and_left_as_they_are() {
    let (disk, _) = filled(true);
    let mut names = segments(&disk);
    names.truncate(1);
    names.push("state".to_owned());
    for name in names {
        let (disk, model) = filled(true);
        disk.tamper(&name, |bytes| bytes[8] = 2);
        let before = content(&disk, &name);
        let operations = disk.operations();
        let refused = open(disk.clone(), model).err().expect("a refusal");
        let text = refused.to_string();
        assert!(text.contains("format 2") && text.contains(&name), "{text}");
        assert_eq!(content(&disk, &name), before);
        assert_eq!(disk.operations(), operations, "nothing was changed");
    }
}

#[test]
fn a_segment_of_another_history_is_not_read() {
    let (disk, model) = filled(true);
    let name = segments(&disk)[1].clone();
    let foreign = content(&disk, &segments(&disk)[2]);
    disk.tamper(&name, |bytes| *bytes = foreign);
    let world = open(disk, model).expect("the state is there");
    assert_eq!(world.recovery.damaged, [name]);
    assert!(world.recovery.has_hole);
}
