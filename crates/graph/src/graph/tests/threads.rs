//! Many threads that change the same edges.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use simulated::Dice;

use super::{Counts, Graph, id, subscribers, subscriptions};
use crate::id::Id;

const THREADS: u64 = 4;
/// Changes by each thread: enough for threads on two cores to interleave between any two steps of a
/// change.
const ROUNDS: usize = 200_000;

/// Integers on one page and far apart, and texts, which are interned only while they have edges.
const IDS: [&str; 8] = [
    "1",
    "2",
    "1000000",
    "2147483647",
    "2147483648",
    "ana",
    "ben",
    "cy",
];

/// Runs `part` in all threads concurrently, each with its own dice.
fn together(part: impl Fn(Dice) + Sync) {
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for number in 1..=THREADS {
            let (barrier, part) = (&barrier, &part);
            scope.spawn(move || {
                barrier.wait();
                part(Dice::new(number));
            });
        }
    });
}

/// Checks that both directions have the same edges; returns their number.
fn agreed_edges(graph: &Graph, ids: &[Id]) -> usize {
    let mut forth = Vec::new();
    let mut back = Vec::new();
    for key in ids.iter().filter_map(|id| graph.find(id)) {
        forth.extend(
            subscriptions(graph, key)
                .into_iter()
                .map(|subject| (key, subject)),
        );
        back.extend(
            subscribers(graph, key)
                .into_iter()
                .map(|subscriber| (subscriber, key)),
        );
    }
    forth.sort_unstable();
    back.sort_unstable();
    assert_eq!(forth, back);
    assert_eq!(graph.counts().edges, forth.len());
    forth.len()
}

#[test]
fn directions_agree_after_threads_change_the_same_edges() {
    let graph = Graph::memory();
    let ids = IDS.map(id);
    let (made, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    together(|mut dice| {
        for _ in 0..ROUNDS {
            let (from, to) = (&ids[dice.roll(8)], &ids[dice.roll(8)]);
            if dice.roll(2) == 0 {
                let new = graph.subscribe(from, to).unwrap();
                made.fetch_add(new.into(), Ordering::Relaxed);
            } else {
                let there = graph.unsubscribe(from, to).unwrap();
                ended.fetch_add(there.into(), Ordering::Relaxed);
            }
        }
    });
    let left = agreed_edges(&graph, &ids);
    assert_eq!(made.into_inner() - ended.into_inner(), left);
    let removed: usize = ids.iter().map(|id| graph.remove(id).unwrap()).sum();
    assert_eq!(removed, left);
    assert_eq!(graph.counts(), Counts::default());
}

#[test]
fn directions_agree_after_threads_change_one_edge() {
    // Ids that are their own keys, as the locks of the dictionary would serialise the threads.
    // Disagreement of the directions is asserted within the change, as the next change may hide it.
    let ids = ["1", "1000000"].map(id);
    let graph = Graph::memory();
    together(|mut dice| {
        for _ in 0..ROUNDS {
            if dice.roll(2) == 0 {
                graph.subscribe(&ids[0], &ids[1]).unwrap();
            } else {
                graph.unsubscribe(&ids[0], &ids[1]).unwrap();
            }
        }
    });
    agreed_edges(&graph, &ids);
}

#[test]
fn directions_agree_after_threads_remove_ids_while_others_subscribe() {
    let graph = Graph::memory();
    let ids = IDS.map(id);
    together(|mut dice| {
        for _ in 0..ROUNDS {
            let (from, to) = (&ids[dice.roll(8)], &ids[dice.roll(8)]);
            match dice.roll(4) {
                0 => {
                    graph.remove(from).unwrap();
                }
                1 => {
                    let key = graph.hold(from).unwrap();
                    assert_eq!(graph.name(key).as_ref(), Some(from), "a held key changed");
                    graph.release(key);
                }
                _ => {
                    graph.subscribe(from, to).unwrap();
                }
            }
        }
    });
    agreed_edges(&graph, &ids);
    for id in &ids {
        graph.remove(id).unwrap();
    }
    assert_eq!(graph.counts(), Counts::default());
}

#[test]
fn a_walk_during_changes_ascends_and_visits_every_stable_subscriber() {
    let graph = Graph::memory();
    let star = id("star");
    let key = graph.hold(&star).unwrap();
    // Even numbers stay, odd ones are added and removed.
    for number in (0..20_000).step_by(2) {
        graph.subscribe(&Id::from(number), &star).unwrap();
    }
    together(|mut dice| {
        for _ in 0..20 {
            for _ in 0..500 {
                let fan = Id::from(dice.roll(20_000) as u32 | 1);
                if dice.roll(2) == 0 {
                    graph.subscribe(&fan, &star).unwrap();
                } else {
                    graph.unsubscribe(&fan, &star).unwrap();
                }
            }
            let met = subscribers(&graph, key);
            assert!(met.is_sorted_by(|a, b| a < b));
            let stayed = met
                .iter()
                .map(|key| key.number())
                .filter(|number| number % 2 == 0);
            assert!(stayed.eq((0..20_000).step_by(2)));
        }
    });
}
