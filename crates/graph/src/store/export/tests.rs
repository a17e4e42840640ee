use std::collections::BTreeSet;

use super::*;
use crate::{Directory, Graph};

const EDGES: [(&str, &str); 8] = [
    ("10", "9"),
    ("10", "zoe"),
    ("9", "10"),
    ("10", "4294967296"),
    ("zoe", "ana"),
    ("ana", "01"),
    ("10", "ana"),
    ("4294967296", "9"),
];

/// Returns a data directory with these edges, added one by one.
fn graph(edges: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let graph = Graph::open(directory.path()).unwrap();
    for (subscriber, subject) in edges {
        let edge = (subscriber.parse().unwrap(), subject.parse().unwrap());
        graph.subscribe(&edge.0, &edge.1).unwrap();
    }
    directory
}

fn export(directory: &tempfile::TempDir, format: ListFormat) -> Result<String, ExportError> {
    let snapshot = Directory::lock(directory.path())
        .unwrap()
        .snapshot()
        .unwrap();
    let mut out = Vec::new();
    let written = snapshot.export(format, &mut out, |_| ())?;
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count() as u64, written);
    Ok(text)
}

#[test]
fn a_list_is_sorted_whatever_the_order_of_insertion() {
    let expected = "9 10\n10 9\n10 4294967296\n10 ana\n10 zoe\n4294967296 9\nana 01\nzoe ana\n";
    let mut edges = EDGES;
    for turn in 0..edges.len() {
        edges.rotate_left(turn);
        assert_eq!(export(&graph(&edges), ListFormat::Words).unwrap(), expected);
    }
}

#[test]
fn json_can_have_any_id() {
    let directory = graph(&[("a b", "#c"), ("1", "a b"), ("1", "\"\\")]);
    assert_eq!(
        export(&directory, ListFormat::Json).unwrap(),
        "{\"subscriber\":1,\"subject\":\"\\\"\\\\\"}\n\
         {\"subscriber\":1,\"subject\":\"a b\"}\n\
         {\"subscriber\":\"a b\",\"subject\":\"#c\"}\n"
    );
    let refused = export(&directory, ListFormat::Words).unwrap_err();
    assert!(refused.to_string().contains("\"#c\""), "{refused}");
}

#[test]
fn a_compacted_graph_and_a_copy_are_the_same_graph() {
    let directory = graph(&EDGES);
    let before = export(&directory, ListFormat::Words).unwrap();
    let locked = Directory::lock(directory.path()).unwrap();
    let copy = directory.path().join("copy.redb");
    locked.snapshot().unwrap().copy_to(&copy).unwrap();
    let again = locked.snapshot().unwrap().copy_to(&copy).unwrap_err();
    assert!(again.to_string().contains("copy.redb"), "{again}");
    locked.compact().unwrap();
    let snapshot = locked.snapshot().unwrap();
    assert_eq!(snapshot.journalled(), 0);
    assert!(snapshot.check().unwrap().is_sound());
    drop((snapshot, locked));
    assert_eq!(export(&directory, ListFormat::Words).unwrap(), before);

    let other = tempfile::tempdir().unwrap();
    std::fs::rename(&copy, other.path().join("graph.redb")).unwrap();
    assert_eq!(export(&other, ListFormat::Words).unwrap(), before);
    let left: BTreeSet<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["graph.redb", "lock"].map(Into::into).into());
}

#[test]
fn statistics_count_edges_ids_and_blocks() {
    let snapshot = Directory::lock(graph(&EDGES).path()).unwrap().snapshot();
    let found = snapshot.unwrap().statistics().unwrap();
    assert_eq!((found.edges, found.ids, found.names), (8, 6, 4));
    assert_eq!(found.most_subscriptions, Some((Id::from(10), 4)));
    assert_eq!(found.most_subscribers.unwrap().1, 2);
}
