//! Sequences of changes, interrupted at every sync, compared with a simple model.

use std::collections::BTreeSet;
use std::sync::Arc;

use simulated::Dice;
use simulated::disk::{Disk, Faults};

use super::super::{Store, fill, pair};
use crate::RowChanges;
use crate::adjacency::Direction;
use crate::batch::Batch;
use crate::change::Change;
use crate::id::Id;
use crate::limits::Limits;
use crate::memory::Memory;

type Edges = BTreeSet<(String, String)>;

/// A store, its memory, and a model of both.
pub(super) struct World {
    pub(super) disk: Disk,
    pub(super) store: Store,
    pub(super) memory: Memory,
    pub(super) model: Edges,
}

/// Returns the file of an empty graph.
pub(super) fn empty_file() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let directory = super::super::Directory::lock(directory.path()).unwrap();
    directory.disk().unwrap();
    std::fs::read(directory.file()).unwrap()
}

/// Returns the file of a graph with some dozens of pages of blocks.
pub(super) fn filled_file() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let directory = super::super::Directory::lock(directory.path()).unwrap();
    let mut list = String::new();
    for edge in 0..20_000_u32 {
        list += &format!("{} {}\n", edge / 20, 5000 + edge * 7919 % 5000);
    }
    crate::load(
        &directory,
        list.as_bytes(),
        crate::LoadOptions::default(),
        |_| {},
    )
    .unwrap();
    let disk = Disk::from(Vec::new());
    let loaded = &directory.snapshot().unwrap();
    fill(Arc::new(disk.file()), loaded, &Limits::SMALL).unwrap();
    let mut file = vec![0; disk.file().len() as usize];
    disk.file().read(0, &mut file).unwrap();
    file
}

impl World {
    pub(super) fn open(content: impl Into<Disk>) -> Self {
        let disk: Disk = content.into();
        let (store, memory) = Store::open(Arc::new(disk.file()), Limits::SMALL).unwrap();
        let model = edges(&memory);
        Self {
            disk,
            store,
            memory,
            model,
        }
    }

    /// Commits some changes. Returns whether that succeeded.
    pub(super) fn commit(&mut self, changes: &[Change]) -> bool {
        let mut batch = Batch::new(&self.memory);
        for change in changes {
            batch.add(change).unwrap();
        }
        let net = batch.net();
        let committed =
            self.store
                .commit(&net, self.memory.adjacency.counts().0, &RowChanges::new());
        if committed.is_ok() {
            batch.apply(&net);
            for change in changes {
                apply(&mut self.model, change);
            }
        }
        committed.is_ok()
    }
}

/// Returns random changes; every third id is text.
pub(super) fn changes(dice: &mut Dice, cast: u64) -> Vec<Change> {
    let mut random = |below: u64| dice.within(0..below);
    let mut changes = Vec::new();
    for _ in 0..1 + random(40) {
        let mut id = || match random(cast) {
            n if n.is_multiple_of(3) => Id::parse(&format!("user-{n}")).unwrap(),
            n => Id::integer(n).unwrap(),
        };
        let (subscriber, subject) = (id(), id());
        changes.push(match random(12) {
            0..8 => Change::Subscribe {
                subscriber,
                subject,
            },
            8..11 => Change::Unsubscribe {
                subscriber,
                subject,
            },
            _ => Change::Remove { id: subject },
        });
    }
    changes
}

fn apply(model: &mut Edges, change: &Change) {
    let edge = |a: &Id, b: &Id| (a.to_string(), b.to_string());
    match change {
        Change::Subscribe {
            subscriber,
            subject,
        } if subscriber != subject => {
            model.insert(edge(subscriber, subject));
        }
        Change::Unsubscribe {
            subscriber,
            subject,
        } => {
            model.remove(&edge(subscriber, subject));
        }
        Change::Remove { id } => {
            let id = id.to_string();
            model.retain(|(a, b)| *a != id && *b != id);
        }
        _ => {}
    }
}

/// Returns all edges in memory, after checking that both directions agree and that every name has
/// an edge.
pub(super) fn edges(memory: &Memory) -> Edges {
    let mut there = BTreeSet::new();
    let mut back = BTreeSet::new();
    let mut names = BTreeSet::new();
    memory.adjacency.walk(Direction::Subscriptions, |from, to| {
        there.insert(pair(from.number(), to.number()));
        names.extend([from, to]);
    });
    memory.adjacency.walk(Direction::Subscribers, |to, from| {
        back.insert(pair(from.number(), to.number()));
    });
    assert_eq!(there, back, "the directions differ");
    names.retain(|key| !key.is_own());
    assert_eq!(
        names.len(),
        memory.dictionary.entries(),
        "names without an edge"
    );
    let name = |number| {
        memory
            .name(crate::key::Key::from_number(number))
            .unwrap()
            .to_string()
    };
    there
        .into_iter()
        .map(|edge| {
            (
                name(super::super::owner(edge)),
                name(super::super::other(edge)),
            )
        })
        .collect()
}

/// Plays the same sequence on a disk with `faults`. Returns the possible states after a power loss,
/// and the world.
fn play(start: &[u8], seed: u64, commits: usize, faults: Faults) -> (Vec<Edges>, World) {
    let mut world = World::open(start.to_vec());
    let before_any = world.disk.syncs();
    world.disk.set(Faults {
        power_lost_at: faults.power_lost_at.map(|at| at + before_any),
        ..faults
    });
    let mut random = Dice::new(seed);
    let mut possible = vec![world.model.clone()];
    for _ in 0..commits {
        // All commits that were acknowledged before the power loss must be there. The commit during
        // which power was lost may be there; later ones are not.
        let frozen = world.disk.is_frozen();
        let last = world.model.clone();
        assert!(world.commit(&changes(&mut random, 40)));
        if !frozen {
            possible = match world.disk.is_frozen() {
                true => vec![last, world.model.clone()],
                false => vec![world.model.clone()],
            };
        }
        assert_eq!(edges(&world.memory), world.model);
    }
    (possible, world)
}

/// Number of commits, enough for two complete sweeps.
const COMMITS: usize = 60;

#[test]
fn a_power_loss_at_any_sync_keeps_exactly_the_acknowledged_commits() {
    let start = empty_file();
    let (_, whole) = play(&start, 7, COMMITS, Faults::default());
    let syncs = whole.disk.syncs();
    assert!(syncs > COMMITS as u64);
    for at in 1..=syncs {
        for torn_by in [None, Some(at), Some(at * 77)] {
            let faults = Faults {
                power_lost_at: Some(at),
                torn_by,
                ..Faults::default()
            };
            let (possible, world) = play(&start, 7, COMMITS, faults);
            let found = World::open(world.disk.after_power_loss(None)).model;
            assert!(possible.contains(&found), "sync {at}, torn by {torn_by:?}");
        }
    }
}

#[test]
fn a_kill_after_any_commit_loses_no_commit() {
    let mut world = World::open(empty_file());
    let mut random = Dice::new(99);
    for round in 0..COMMITS {
        assert!(world.commit(&changes(&mut random, 60)));
        let found = World::open(world.disk.after_kill());
        assert_eq!(found.model, world.model, "round {round}");
        if round % 5 == 0 {
            // Continue with the reopened graph.
            world = found;
        }
    }
}
