//! Graphs that follow a log, on disks that lose power and fail, compared with a model of the log.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use simulated::Dice;
use simulated::disk::{Disk as SimDisk, Faults, Nth};

use super::super::{Directory, OpenError, Store};
use super::crash::{World, changes, edges, empty_file};
use crate::adjacency::Direction;
use crate::batch::Batch;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::places::{Checkpoint, LogPlaces};
use crate::replica::Replica;
use crate::{Change, Graph, GraphError, Id, RowChanges, Rows};

type Edges = BTreeSet<(String, String)>;

const ENTRIES: u64 = 40;

/// Entries of a log, and the edges of a graph after each of them.
struct Log {
    entries: Vec<Vec<Change>>,
    after: Vec<Edges>,
}

impl Log {
    fn new(start: &[u8], seed: u64) -> Self {
        let mut random = Dice::new(seed);
        let mut world = World::open(start.to_vec());
        let (mut entries, mut after) = (vec![Vec::new()], vec![world.model.clone()]);
        for _ in 0..ENTRIES {
            let changes = changes(&mut random, 40);
            assert!(world.commit(&changes));
            entries.push(changes);
            after.push(world.model.clone());
        }
        Self { entries, after }
    }
}

fn place(sequence: u64) -> Checkpoint {
    let table = format!("writers after {sequence}");
    Checkpoint {
        sequence,
        table: table.into_bytes().into(),
    }
}

/// Returns the changes of rows with an entry: a row that is set or removed.
fn row_changes(sequence: u64) -> RowChanges {
    let name = [(sequence % 7) as u8].into();
    let value = (sequence / 7)
        .is_multiple_of(2)
        .then(|| format!("of {sequence}").into_bytes().into());
    let last = ((*b"last").into(), Some(sequence.to_le_bytes().into()));
    [(name, value), last].into()
}

/// Returns the rows after an entry.
fn rows_after(sequence: u64) -> Rows {
    let mut rows = Rows::new();
    for (name, value) in (1..=sequence).flat_map(row_changes) {
        match value {
            Some(value) => drop(rows.insert(name, value)),
            None => drop(rows.remove(&name)),
        }
    }
    rows
}

/// A node: a graph on a fake disk.
struct Node {
    /// Rows of the file.
    rows: Rows,
    disk: SimDisk,
    memory: Arc<Memory>,
    replica: Replica,
}

impl Node {
    fn open(content: impl Into<SimDisk>) -> Self {
        let disk = content.into();
        let (mut store, memory) =
            Store::open(Arc::new(disk.file()), Limits::SMALL).expect("a good file");
        let rows = store.take_rows();
        let start = store
            .log()
            .map(|log| log.places.clone())
            .unwrap_or_default();
        let memory = Arc::new(memory);
        let replica = Replica::durable(store, Arc::clone(&memory), start).expect("a thread");
        Self {
            rows,
            disk,
            memory,
            replica,
        }
    }

    /// Applies the entries after the stored position up to `last`. Every fourth is written before
    /// the next one is applied; some have no position of their own.
    fn follow(&self, log: &Log, last: u64) {
        for sequence in self.replica.start.last.sequence + 1..=last {
            let entry = &log.entries[sequence as usize];
            assert!(
                self.replica
                    .apply(&self.memory, entry)
                    .iter()
                    .all(Result::is_ok)
            );
            self.replica.set_rows(row_changes(sequence));
            // The changes are visible before the next entry.
            assert_eq!(edges(&self.memory), log.after[sequence as usize]);
            if sequence % 5 != 2 || sequence == last {
                self.replica
                    .place(place(sequence), sequence.is_multiple_of(3));
            }
            if sequence.is_multiple_of(4) {
                // Returns when all changes with a position were written or have failed.
                let _ = self.replica.snapshot();
            }
        }
    }
}

/// Returns the position stored in a file, after checking that the file has exactly the edges of
/// that position.
fn check(content: impl Into<SimDisk>, log: &Log) -> u64 {
    let node = Node::open(content);
    let LogPlaces { last, earlier, .. } = &node.replica.start;
    assert_eq!(edges(&node.memory), log.after[last.sequence as usize]);
    assert_eq!(node.rows, rows_after(last.sequence));
    if last.sequence != 0 {
        assert_eq!(*last, place(last.sequence));
    }
    let mut before = 0;
    for checkpoint in earlier {
        assert_eq!(*checkpoint, place(checkpoint.sequence));
        assert!(checkpoint.sequence > before && checkpoint.sequence <= last.sequence);
        before = checkpoint.sequence;
    }
    assert!(earlier.len() as u64 <= Limits::SMALL.checkpoints_max);
    last.sequence
}

#[test]
fn a_power_loss_at_any_sync_leaves_the_graph_of_the_stored_position() {
    let start = empty_file();
    let log = Log::new(&start, 11);
    let whole = Node::open(start.clone());
    whole.follow(&log, ENTRIES);
    whole.replica.end();
    assert_eq!(check(whole.disk.after_power_loss(None), &log), ENTRIES);
    let syncs = whole.disk.syncs() + 10;
    let mut places = BTreeSet::new();
    for at in 1..=syncs {
        let node = Node::open(start.clone());
        node.disk.set(Faults {
            power_lost_at: Some(at + node.disk.syncs()),
            torn_by: (at % 3 != 0).then_some(at),
            ..Faults::default()
        });
        node.follow(&log, ENTRIES);
        node.replica.end();
        let left = node.disk.after_power_loss(None);
        places.insert(check(left.clone(), &log));
        let again = Node::open(left);
        again.follow(&log, ENTRIES);
        again.replica.end();
        assert_eq!(
            check(again.disk.after_power_loss(None), &log),
            ENTRIES,
            "sync {at}"
        );
    }
    assert!(places.len() > 8, "{places:?}");
}

#[test]
fn changes_of_failed_writes_are_written_together_later() {
    let start = empty_file();
    let log = Log::new(&start, 12);
    for at in 1..=16 {
        let node = Node::open(start.clone());
        node.disk.set(Faults {
            failed_at: Some(Nth::Sync(node.disk.syncs() + at)),
            ..Faults::default()
        });
        node.follow(&log, ENTRIES);
        // This write is a retry and succeeds.
        assert!(node.replica.snapshot().expect("it has a disk").is_ok());
        let stored = node.replica.stored().expect("it has a disk");
        assert_eq!((stored.sequence, stored.edges_waiting), (ENTRIES, 0));
        assert_eq!(stored.failure, None);
        node.replica.end();
        assert_eq!(
            check(node.disk.after_power_loss(None), &log),
            ENTRIES,
            "{at}"
        );
    }
}

#[test]
fn a_failing_disk_delays_the_log_but_not_readers() {
    let start = empty_file();
    let log = Log::new(&start, 13);
    let node = Node::open(start);
    node.disk.set(Faults {
        writes_fail: true,
        ..Faults::default()
    });
    std::thread::scope(|scope| {
        let (done, is_done) = sync_channel(1);
        let (node, log) = (&node, &log);
        scope.spawn(move || {
            for (sequence, entry) in (1..).zip(&log.entries[1..]) {
                node.replica.apply(&node.memory, entry);
                node.replica.set_rows(row_changes(sequence));
                node.replica.place(place(sequence), false);
            }
            done.send(()).expect("the test waits");
        });
        loop {
            let stored = node.replica.stored().expect("it has a disk");
            if stored.edges_waiting > 64 && stored.failure.is_some() {
                assert!(matches!(stored.failure, Some(GraphError::Disk { .. })));
                assert_eq!(stored.sequence, 0);
                break;
            }
            std::thread::yield_now();
        }
        assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err());
        node.memory
            .adjacency
            .walk(Direction::Subscribers, |_, _| ());
        node.disk.set(Faults::default());
        is_done
            .recv_timeout(Duration::from_secs(60))
            .expect("it goes on");
    });
    node.replica.end();
    assert_eq!(check(node.disk.after_power_loss(None), &log), ENTRIES);
}

fn id(number: u32) -> Id {
    Id::from(number)
}

fn subscribe(subscriber: u32, subject: u32) -> Change {
    Change::Subscribe {
        subscriber: id(subscriber),
        subject: id(subject),
    }
}

/// Creates a graph with the edges 1 to 2 and 1 to 3, at entry 9.
fn follow_in(path: &std::path::Path) {
    let graph = Graph::open_in_log(path, "k3v9").expect("a new directory");
    assert_eq!(
        graph.log_start().map(|places| places.last.sequence),
        Some(0)
    );
    assert!(graph.apply(&[subscribe(1, 2)])[0].is_ok());
    graph.place(place(7), true);
    assert!(graph.apply(&[subscribe(1, 3)])[0].is_ok());
    graph.place(place(9), false);
    graph.end();
}

fn places() -> LogPlaces {
    LogPlaces {
        epoch: "k3v9".into(),
        last: place(9),
        earlier: vec![place(7)],
    }
}

#[test]
fn copies_continue_from_the_position_of_the_graph() {
    let (first, second, third) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    follow_in(first.path());
    let graph = Graph::open_in_log(first.path(), "k3v9").unwrap();
    assert_eq!(graph.log_start(), Some(&places()));
    let mut copy = graph.copy().unwrap().expect("it is on disk");
    assert_eq!(copy.log, Some(places()));
    drop(graph);
    let directory = Directory::lock(second.path()).unwrap();
    directory.install(&mut copy.file, &places()).unwrap();
    drop(directory);
    let copied = Graph::open_in_log(second.path(), "k3v9").unwrap();
    assert_eq!(copied.log_start(), Some(&places()));
    assert_eq!(copied.counts().edges, 2);
    drop(copied);
    Directory::lock(second.path()).unwrap().compact().unwrap();
    // A graph that followed no log gets a position for its first snapshot.
    let single = Graph::open(third.path()).unwrap();
    single.subscribe(&id(1), &id(2)).unwrap();
    let mut snapshot = single.snapshot().unwrap().expect("it is on disk");
    assert_eq!(snapshot.log(), None);
    snapshot.set_log(places());
    snapshot.copy_to(&third.path().join("copy")).unwrap();
    drop((snapshot, single));
    fs::rename(third.path().join("copy"), third.path().join("graph.redb")).unwrap();
    for path in [second.path(), third.path()] {
        let graph = Graph::open_in_log(path, "k3v9").unwrap();
        assert_eq!(graph.log_start(), Some(&places()));
    }
}

fn row(name: &str, value: &str) -> RowChanges {
    let value = Some(value.as_bytes().into());
    [(name.as_bytes().into(), value)].into()
}

#[test]
fn rows_are_in_each_copy_of_a_graph() {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [first, second, third] = &directories;
    follow_in(first.path());
    let graph = Graph::open_in_log(first.path(), "k3v9").unwrap();
    assert_eq!(
        (graph.take_rows(), graph.has_rows_of_log()),
        (Rows::new(), true)
    );
    graph.set_rows(row("a", "1"), |done| assert!(done.is_ok()));
    graph.set_rows(row("b", "2"), |done| assert!(done.is_ok()));
    assert!(graph.unplaced() > 0);
    graph.place(place(10), false);
    let mut copy = graph.copy().unwrap().expect("it is on disk");
    let places = copy.log.clone().expect("it follows a log");
    let expected: Rows = [
        (b"a"[..].into(), b"1"[..].into()),
        (b"b"[..].into(), b"2"[..].into()),
    ]
    .into();
    drop(graph);
    let directory = Directory::lock(second.path()).unwrap();
    directory.install(&mut copy.file, &places).unwrap();
    directory.compact().unwrap();
    assert_eq!(directory.snapshot().unwrap().rows(), Ok(expected.clone()));
    // Loading an edge list keeps the rows and removes the position.
    let options = crate::LoadOptions::default();
    crate::load(&directory, &b"5 6"[..], options, |_| ()).unwrap();
    drop(directory);
    let merged = Graph::open(second.path()).unwrap();
    assert_eq!(merged.take_rows(), expected);
    // A node without a directory.
    copy.file.seek(SeekFrom::Start(0)).unwrap();
    let in_memory = Graph::memory_from_copy(&mut copy.file, &places).unwrap();
    assert_eq!(in_memory.take_rows(), expected);
    assert_eq!(in_memory.log_start(), Some(&places));
    assert_eq!(in_memory.counts().edges, 2);
    assert!(in_memory.apply(&[subscribe(7, 8)])[0].is_ok());
    let mut other = places.clone();
    other.last.sequence += 1;
    copy.file.seek(SeekFrom::Start(0)).unwrap();
    assert!(Graph::memory_from_copy(&mut copy.file, &other).is_err());
    assert!(Graph::memory_from_copy(&mut &b"redb"[..], &places).is_err());
    // A graph that is not in a cluster.
    let single = Graph::open(third.path()).unwrap();
    let (done, is_done) = sync_channel(1);
    single.set_rows(row("c", "3"), move |result| done.send(result).unwrap());
    assert_eq!(is_done.recv().unwrap(), Ok(()));
    single.end();
    drop(single);
    let rows = Graph::open(third.path()).unwrap().take_rows();
    assert_eq!(rows, [(b"c"[..].into(), b"3"[..].into())].into());
}

#[test]
fn a_received_copy_is_compared_with_the_original_edge_by_edge() {
    let path = tempfile::tempdir().unwrap();
    let graph = Graph::open(path.path()).unwrap();
    let alice = Id::parse("alice").unwrap();
    graph.subscribe(&alice, &id(2)).unwrap();
    graph.subscribe(&id(1), &id(2)).unwrap();
    drop(graph);
    let directory = Directory::lock(path.path()).unwrap();
    let with_places = |directory: &Directory, places| {
        let mut snapshot = directory.snapshot().unwrap();
        snapshot.set_log(places);
        snapshot
    };
    let original = with_places(&directory, places());
    let mut copy = directory.copy(&original).unwrap();
    let received = directory.receive(&mut copy).unwrap();
    assert_eq!(original.is_same(&received), Ok(true));
    drop(original);
    let other_place = LogPlaces {
        last: place(8),
        ..places()
    };
    assert_eq!(
        with_places(&directory, other_place).is_same(&received),
        Ok(false)
    );
    for bad in [&b""[..], b"redb"] {
        assert!(directory.receive(&mut &*bad).is_err());
    }
    drop(directory);
    // One edge replaced, one edge added, and one id with another name.
    let change = |act: &dyn Fn(&Graph)| {
        let graph = Graph::open(path.path()).unwrap();
        act(&graph);
        drop(graph);
        let directory = Directory::lock(path.path()).unwrap();
        with_places(&directory, places()).is_same(&received)
    };
    let more = |graph: &Graph| drop(graph.subscribe(&id(1), &id(3)));
    assert_eq!(change(&more), Ok(false));
    let other = |graph: &Graph| drop(graph.unsubscribe(&id(1), &id(2)));
    assert_eq!(change(&other), Ok(false));
    let same = |graph: &Graph| {
        drop(graph.unsubscribe(&id(1), &id(3)));
        drop(graph.subscribe(&id(1), &id(2)));
    };
    assert_eq!(change(&same), Ok(true));
    let left: Vec<_> = fs::read_dir(path.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "the graph and the lock: {left:?}");
}

#[test]
fn a_file_that_is_not_a_graph_is_not_installed() {
    let path = tempfile::tempdir().unwrap();
    follow_in(path.path());
    let mut good = fs::read(path.path().join("graph.redb")).unwrap();
    let middle = good.len() / 2;
    good[..middle].reverse();
    let directory = Directory::lock(path.path()).unwrap();
    for bad in [&b""[..], b"redb", &good] {
        assert!(directory.install(&mut &*bad, &places()).is_err());
    }
    drop(directory);
    let graph = Graph::open_in_log(path.path(), "k3v9").unwrap();
    assert_eq!(graph.log_start(), Some(&places()));
}

#[test]
fn a_graph_of_another_log_or_of_no_log_is_refused_and_not_changed() {
    let path = tempfile::tempdir().unwrap();
    let path = path.path();
    Graph::open(path)
        .unwrap()
        .subscribe(&id(1), &id(2))
        .unwrap();
    let refused = |epoch: &str| Graph::open_in_log(path, epoch).err().expect("a refusal");
    let error = refused("k3v9");
    assert!(matches!(error, OpenError::NoPlace { .. }), "{error}");
    assert!(
        error.to_string().contains("encke cluster import"),
        "{error}"
    );
    Graph::open(path)
        .unwrap()
        .unsubscribe(&id(1), &id(2))
        .unwrap();
    follow_in(path);
    let error = refused("other");
    assert!(matches!(error, OpenError::OtherLog { .. }), "{error}");
    assert!(
        error.to_string().contains("encke cluster import"),
        "{error}"
    );
    assert!(Graph::open_in_log(path, "k3v9").is_ok());
}

#[test]
fn a_change_without_the_log_removes_the_position() {
    let path = tempfile::tempdir().unwrap();
    let path = path.path();
    follow_in(path);
    // Reading it, and a change without effect, keep the position.
    Graph::open(path)
        .unwrap()
        .subscribe(&id(1), &id(2))
        .unwrap();
    assert!(Graph::open_in_log(path, "k3v9").is_ok());
    Graph::open(path)
        .unwrap()
        .subscribe(&id(4), &id(2))
        .unwrap();
    let changed = Graph::open_in_log(path, "k3v9").err();
    assert!(matches!(changed, Some(OpenError::NoPlace { .. })));
    let path = tempfile::tempdir().unwrap();
    let path = path.path();
    follow_in(path);
    let directory = Directory::lock(path).unwrap();
    let options = crate::LoadOptions::default();
    crate::load(&directory, &b"5 6\n"[..], options, |_| ()).unwrap();
    drop(directory);
    let loaded = Graph::open_in_log(path, "k3v9").err();
    assert!(matches!(loaded, Some(OpenError::NoPlace { .. })));
}

#[test]
fn changes_by_other_ways_than_the_log_are_refused() {
    let path = tempfile::tempdir().unwrap();
    for graph in [
        Graph::open_in_log(path.path(), "k3v9").unwrap(),
        Graph::memory_in_log("k3v9"),
    ] {
        let subscribed = graph.subscribe(&id(1), &id(2));
        assert_eq!(subscribed, Err(GraphError::Replicated));
        assert_eq!(graph.counts().edges, 0);
        assert!(graph.apply(&[subscribe(1, 2)])[0].is_ok());
        assert_eq!(graph.counts().edges, 1);
    }
    let single = Graph::memory();
    let applied = single.apply(&[subscribe(1, 2)]);
    assert_eq!(applied, [Err(GraphError::Replicated)]);
}

#[test]
fn the_removal_of_a_large_id_is_complete_before_the_next_entry() {
    let many = 2 * crate::batch::REMOVED_EDGES_MAX as u32 + 5;
    let graph = Graph::memory_in_log("k3v9");
    let all: Vec<_> = (1..=many)
        .map(|subscriber| subscribe(subscriber, 0))
        .collect();
    graph.apply(&all);
    let changes = [Change::Remove { id: id(0) }, subscribe(1, 0)];
    let answer = graph.apply(&changes);
    let removed = answer[0].as_ref().map(|effect| effect.removed);
    assert_eq!((removed, answer.len()), (Ok(many as usize), 2));
    assert_eq!(graph.counts().edges, 1);
}

// A key that changes its name between two commits.
#[test]
fn names_that_change_between_two_commits_are_right_on_disk() {
    let disk = SimDisk::from(empty_file());
    let (mut store, memory) = Store::open(Arc::new(disk.file()), Limits::SMALL).unwrap();
    let text = |name: &str| Id::parse(name).unwrap();
    let mut pending = crate::replica::Pending::default();
    for (name, is_there) in [
        ("a", true),
        ("a", false),
        ("b", true),
        ("b", false),
        ("c", true),
    ] {
        let (subscriber, subject) = (id(1), text(name));
        let change = match is_there {
            true => Change::Subscribe {
                subscriber,
                subject,
            },
            false => Change::Unsubscribe {
                subscriber,
                subject,
            },
        };
        let mut batch = Batch::new(&memory);
        batch.add(&change).unwrap();
        let net = batch.net();
        batch.apply(&net);
        pending.add(&net);
    }
    let written = LogPlaces {
        epoch: "k3v9".into(),
        last: place(5),
        earlier: Vec::new(),
    };
    store
        .commit_from_log(&pending.net(), 1, pending.rows(), Some(&written))
        .unwrap();
    let found = World::open(disk.after_power_loss(None)).model;
    assert_eq!(found, [("1".to_owned(), "c".to_owned())].into());
}
