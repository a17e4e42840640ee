//! Tests of a graph in a data directory.

use std::path::Path;

use super::{id, subscribers, subscriptions};
use crate::{Change, Direction, Effect, Graph, Id, OpenError};

/// Returns all edges, by id.
fn edges(graph: &Graph) -> Vec<(String, String)> {
    let snapshot = graph.snapshot().unwrap().unwrap();
    let name = |key| graph.name(key).unwrap().to_string();
    let pairs = snapshot.pairs(Direction::Subscriptions).unwrap();
    let mut there: Vec<_> = pairs
        .map(|pair| pair.map(|(from, to)| (name(from), name(to))).unwrap())
        .collect();
    let pairs = snapshot.pairs(Direction::Subscribers).unwrap();
    let mut back: Vec<_> = pairs
        .map(|pair| pair.map(|(to, from)| (name(from), name(to))).unwrap())
        .collect();
    there.sort();
    back.sort();
    assert_eq!(there, back);
    there
}

fn open(path: &Path) -> Graph {
    Graph::open(path).unwrap()
}

#[test]
fn answered_changes_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let names = ["1", "2147483648", "ana", "01", "名前"];
    {
        let graph = open(directory.path());
        for from in names {
            for to in names {
                assert_eq!(graph.subscribe(&id(from), &id(to)), Ok(from != to));
            }
        }
        assert_eq!(graph.unsubscribe(&id("ana"), &id("01")), Ok(true));
        assert_eq!(graph.remove(&id("名前")), Ok(8));
    }
    let graph = open(directory.path());
    let counts = graph.counts();
    assert_eq!(
        (counts.ids, counts.edges, counts.dictionary_entries),
        (4, 11, 3)
    );
    assert_eq!(edges(&graph).len(), 11);
    assert_eq!(graph.find(&id("名前")), None);
    // The integer 1 and the text 01 are different ids; 1 and "1" are the same, as a path cannot
    // distinguish them.
    let one = graph
        .find(&serde_json::from_str::<Id>("\"1\"").unwrap())
        .unwrap();
    assert_eq!(graph.find(&Id::from(1)), Some(one));
    assert_ne!(graph.find(&id("01")), Some(one));
    let names: Vec<_> = subscriptions(&graph, one)
        .into_iter()
        .map(|key| serde_json::to_string(&graph.name(key).unwrap()).unwrap())
        .collect();
    assert_eq!(names.len(), 3);
    for name in ["2147483648", "\"ana\"", "\"01\""] {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
    assert_eq!(subscribers(&graph, one).len(), 3);
}

#[test]
fn a_second_graph_in_one_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path());
    let refused = Graph::open(directory.path()).err().unwrap();
    assert!(
        matches!(&refused, OpenError::InUse { process: Some(process), .. }
        if *process == std::process::id().to_string())
    );
    assert!(refused.to_string().contains("in use by another process"));
    drop(first);
    open(directory.path());
}

#[test]
fn a_replacement_adds_and_removes_atomically() {
    let directory = tempfile::tempdir().unwrap();
    let graph = open(directory.path());
    for subject in [1, 2, 3] {
        graph.subscribe(&id("a"), &Id::from(subject)).unwrap();
    }
    let replace = |subjects: &[u32]| {
        let subjects = subjects.iter().map(|&subject| Id::from(subject)).collect();
        graph.change_now(Change::Replace {
            subscriber: id("a"),
            subjects,
        })
    };
    let effect = |added, removed, unchanged| Effect {
        added,
        removed,
        unchanged,
    };
    assert_eq!(replace(&[2, 3, 4, 4, 5]), Ok(effect(2, 1, 2)));
    assert_eq!(edges(&graph).len(), 4);
    assert_eq!(replace(&[]), Ok(effect(0, 4, 0)));
    assert_eq!(edges(&graph), []);
    assert_eq!(graph.counts().dictionary_entries, 0);
}

// Regression: answered changes still counted as waiting, and after 65,536 of them the writer
// accepted no more.
#[test]
fn answered_changes_make_room_for_any_number_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let graph = open(directory.path());
    let (subscriber, subject) = (id("ana"), id("bob"));
    let once = [true, false].map(|adds| match adds {
        true => Change::Subscribe {
            subscriber: subscriber.clone(),
            subject: subject.clone(),
        },
        false => Change::Unsubscribe {
            subscriber: subscriber.clone(),
            subject: subject.clone(),
        },
    });
    for round in 0..8 {
        let effects = graph.change_all_now(once.iter().cycle().take(10_000).cloned().collect());
        assert!(effects.iter().all(Result::is_ok), "round {round}");
    }
}
