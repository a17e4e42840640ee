//! Tests of the applier, with nodes that are killed at any entry and restarted.

mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cluster::apply::{Applier, StartError, begin_from};
use cluster::{Apply, EntryRead, Pending};
use graph::{Graph, GraphError, RowChanges, Rows};
use history::{Cursor, Gap, Limits, Missed, Reach};
use model::{CLAIM_SECONDS, Edges, IDS, Log, id};
use reactor::SlotKey;
use replication::shared::{
    FOR_EVER, Gone, Overflow, Piece, Row, SharedRows, SharedSink, TableLimits, UnreadablePiece,
};
use replication::{
    Checkpoint, Command, Entry, EventRecord, Incarnation, Outcome, Position, Reader,
    StreamSequence, shared,
};
use router::{Mailboxes, Parcel, Router, SessionRef, WorkerId};
use simulated::Dice;

const EPOCH: &str = "k3v9";

const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    age_seconds: None,
};

/// Size of the history as passed to the applier, in bytes: small, so that positions are kept often.
const HISTORY_BYTES: usize = 4096;

/// Deliveries: the sessions that got the event of each position. Panics if a session gets an event
/// twice.
#[derive(Default)]
struct Mail(Mutex<BTreeMap<u64, BTreeSet<u64>>>);

impl Mailboxes for Mail {
    fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        let mut all = self.0.lock().expect("no panic");
        for delivery in &parcel.deliveries {
            let position = parcel.first_position + u64::from(delivery.event);
            for key in delivery.recipients.as_slice() {
                let is_first = all
                    .entry(position)
                    .or_default()
                    .insert(u64::from(key.index));
                assert!(is_first, "{position} came twice");
            }
        }
        drop(all);
        parcel.tally.settle();
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

/// Returns the tables of known names, and of the positions of repeated ones.
fn tables() -> [TableLimits; 2] {
    [CLAIMS, REPEATS].map(|table| TableLimits {
        table,
        rows: 1000,
        bytes: 1 << 20,
        overflow: Overflow::ForgetFirst,
    })
}

const CLAIMS: u8 = 1;
const REPEATS: u8 = 2;

/// Keeper of names. A piece has a name, and the number of commands to skip if the name is known.
#[derive(Debug)]
struct Keeper(Mutex<SharedRows>);

impl Keeper {
    fn load(rows: &Rows) -> Self {
        Self(Mutex::new(
            SharedRows::load(&tables(), rows).expect("our own"),
        ))
    }

    /// Returns the state after reading a log up to a message.
    fn reference(log: &Log, end: u64) -> Self {
        let (keeper, mut reader) = (Self::load(&Rows::new()), Reader::default());
        for (bytes, &seconds) in log.messages.iter().zip(&log.seconds).take(end as usize) {
            let read = reader.read(reader.next(), bytes).expect("in order");
            keeper.advance(seconds);
            let Outcome::Counts(entry) = read.outcome else {
                continue;
            };
            let mut passed = 0;
            for (index, command) in (0..).zip(&entry.commands) {
                if passed > 0 {
                    passed -= 1;
                } else if let Command::Shared { kind, bytes } = command {
                    let taken = keeper.take(Piece {
                        position: Position::new(read.sequence, index),
                        incarnation: entry.incarnation,
                        is_own: false,
                        kind: *kind,
                        bytes,
                    });
                    passed = taken.expect("it is readable");
                }
            }
        }
        keeper
    }

    fn is_same(&self, other: &Self) -> bool {
        let (own, other) = (self.0.lock(), other.0.lock());
        own.expect("no panic").is_same(&other.expect("no panic"))
    }
}

impl SharedSink for Keeper {
    fn advance(&self, seconds: u64) {
        self.0.lock().expect("no panic").advance(seconds);
    }

    fn take(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece> {
        check(&piece)?;
        let mut rows = self.0.lock().expect("no panic");
        let name = &piece.bytes[1..2];
        let is_known = rows.get(CLAIMS, name).is_some();
        let (table, name, until) = match is_known {
            true => (
                REPEATS,
                piece.position.number().to_be_bytes().to_vec(),
                FOR_EVER,
            ),
            false => (CLAIMS, name.to_vec(), rows.seconds() + CLAIM_SECONDS),
        };
        let row = Row {
            until,
            position: piece.position,
            value: Box::default(),
        };
        rows.put(table, &name, row).expect("room");
        Ok(usize::from(is_known) * usize::from(piece.bytes[0]))
    }

    fn passed_over(&self, piece: Piece<'_>) -> Result<usize, UnreadablePiece> {
        check(&piece)?;
        let rows = self.0.lock().expect("no panic");
        let name = piece.position.number().to_be_bytes();
        Ok(usize::from(rows.get(REPEATS, &name).is_some()) * usize::from(piece.bytes[0]))
    }

    fn gone(&self, _: Gone) {}

    fn has_changes(&self) -> bool {
        self.0.lock().expect("no panic").has_changes()
    }

    fn take_changes(&self) -> RowChanges {
        self.0.lock().expect("no panic").take_changes()
    }
}

/// Treats a piece that does not have two bytes as one of a newer version.
fn check(piece: &Piece<'_>) -> Result<(), UnreadablePiece> {
    match piece.bytes.len() {
        2 => Ok(()),
        _ => Err(UnreadablePiece {
            kind: piece.kind,
            position: piece.position,
        }),
    }
}

/// A running node.
struct Node {
    router: Arc<Router<Mail>>,
    applier: Applier<Mail>,
    reader: Reader,
    keeper: Arc<Keeper>,
    from: u64,
}

impl Node {
    /// Starts a node with the graph at `path`. The log begins with entry `first`.
    fn start(path: &Path, first: u64) -> Result<Self, StartError> {
        let graph = Arc::new(Graph::open_in_log(path, EPOCH).expect("our own graph"));
        let rows = graph.take_rows();
        let from = begin_from(graph.log_start().expect("it follows a log"), first)?;
        let router = Router::new(EPOCH, graph, Mail::default()).with_history(LIMITS);
        let router = Arc::new(router);
        let keeper = Arc::new(Keeper::load(&rows));
        let shared: Arc<dyn SharedSink> = keeper.clone();
        let applier = Applier::new(
            Arc::clone(&router),
            Some(shared),
            from.clone(),
            HISTORY_BYTES,
            0,
        )?;
        let from_number = from.read.number();
        Ok(Self {
            reader: Reader::new(applier.start()),
            router,
            applier,
            keeper,
            from: from_number,
        })
    }

    fn read(&self) -> u64 {
        self.reader.checkpoint().read.number()
    }

    /// Applies the next message.
    fn apply(&mut self, log: &Log) -> Result<Vec<Pending>, String> {
        let sequence = self.reader.next();
        let bytes = &log.messages[sequence.number() as usize - 1];
        let read = self.reader.read(sequence, bytes).expect("the next entry");
        let entry_read = EntryRead {
            after: self.reader.checkpoint(),
            seconds: log.seconds[sequence.number() as usize - 1],
            is_own: false,
            ended: &read.ended,
        };
        match &read.outcome {
            Outcome::Counts(entry) => self.applier.apply(entry, entry_read),
            Outcome::Skipped(_) => self.applier.skip(entry_read).map(|()| Vec::new()),
        }
    }

    fn edges(&self) -> Edges {
        let graph = self.router.graph();
        let mut edges = Edges::new();
        for (from, to) in (0..IDS).flat_map(|from| (0..IDS).map(move |to| (from, to))) {
            if let (Some(from_key), Some(to_key)) = (graph.find(&id(from)), graph.find(&id(to)))
                && from != to
                && graph.is_subscribed(from_key, to_key)
            {
                edges.insert((from, to));
            }
        }
        edges
    }

    /// Logs in one session for each id.
    fn serve(&self) {
        for number in 0..IDS {
            let slot = SlotKey {
                index: number as u32,
                generation: 0,
            };
            let session = SessionRef::new(WorkerId(0), slot);
            self.router.login(&id(number), session).expect("room");
        }
    }

    fn gap(&self, cursor: Cursor<'_>) -> Option<Gap> {
        let recorder = self.router.recorder().expect("it has a history");
        recorder.read(|history| history.gap(EPOCH, cursor))
    }

    /// Compares the events that returning clients have missed with the expected ones.
    fn check_missed(&self, log: &Log, after: u64) {
        let edges = &log.edges[self.read() as usize];
        for client in 0..IDS {
            let own = self.router.graph().hold(&id(client)).expect("room");
            let mut found = Vec::new();
            self.router
                .missed(&[own], after, u64::MAX, 10_000, &mut found);
            self.router.graph().release(own);
            let found: BTreeSet<u64> = found.iter().map(|it: &Missed| it.position).collect();
            let stored = || {
                let later = log
                    .events
                    .range(after + 1..)
                    .filter(|(_, owed)| owed.is_stored);
                later.filter(|(position, _)| **position >> 16 <= self.read())
            };
            for (position, owed) in stored() {
                let follows = owed.subject == client
                    || edges.contains(&(client, owed.subject)) && owed.reach == Reach::Subscribers;
                // A client that has unsubscribed and subscribed again gets no events from before.
                let edge = (client, owed.subject);
                let mut ended = log.ended.iter();
                let was_owed = owed.recipients.contains(&client)
                    && !ended.any(|&(at, other)| at > *position && other == edge);
                assert!(
                    found.contains(position) || !(was_owed && follows),
                    "{client} lacks {position} after {after}"
                );
                assert!(
                    follows || !found.contains(position),
                    "{client} has {position}"
                );
            }
            let all: BTreeSet<u64> = stored().map(|(position, _)| *position).collect();
            assert!(found.is_subset(&all), "{found:?} in {all:?}");
        }
    }
}

fn end_of(sequence: u64) -> u64 {
    (sequence << 16) | 0xffff
}

/// Checks the results of an entry against the log.
fn check_results(log: &Log, results: &[Pending], sequence: u64, is_serving: bool) {
    for (index, result) in results.iter().enumerate() {
        let at = (sequence << 16) | index as u64;
        match result {
            Pending::Event {
                position,
                subscribers,
                online,
                tally,
            } => {
                let owed = &log.events[&at];
                assert_eq!(position.number(), at);
                let all = owed.recipients.len() as u64;
                assert_eq!(*subscribers, all);
                assert_eq!(
                    (*online, tally.is_some()),
                    match is_serving {
                        true => (all, true),
                        false => (0, false),
                    }
                );
            }
            Pending::Change(effect) => assert!(effect.is_ok()),
            Pending::None => assert!(!log.events.contains_key(&at), "{at}"),
        }
    }
}

/// Copies the graph's file in the state that a kill at this moment would leave.
fn copy(from: &Path, to: &Path) {
    fs::copy(from.join("graph.redb"), to.join("graph.redb")).expect("a copy");
}

#[test]
fn a_node_killed_at_any_entry_delivers_every_event_exactly_once() {
    for seed in 1..=6 {
        let mut random = Dice::new(seed * 77);
        let log = Log::new(seed, 160);
        let mut directory = tempfile::tempdir().expect("a directory");
        // Number of the oldest entry of the log, and of the last one applied.
        let (mut first, mut end) = (1, 0);
        while end < log.messages.len() as u64 {
            let mut node = Node::start(directory.path(), first).expect("it goes on");
            assert!(node.from + 1 >= first);
            // Entries that were in the log at the start, while no client is connected.
            while node.read() < end {
                let results = node.apply(&log).expect("in order");
                if node.read() > node.from {
                    check_refilled(&log, &node, &results);
                }
            }
            assert_eq!(node.edges(), log.edges[end as usize], "seed {seed}, {end}");
            assert!(
                node.router
                    .mailboxes()
                    .0
                    .lock()
                    .expect("no panic")
                    .is_empty()
            );
            assert_eq!(node.router.head(), Some(end_of(end)));
            assert!(
                node.keeper.is_same(&Keeper::reference(&log, end)),
                "the shared state after {end} is another one"
            );
            for after in [node.from, (node.from + end) / 2, end] {
                assert_eq!(node.gap(Cursor::complete(EPOCH, end_of(after))), None);
                node.check_missed(&log, end_of(after));
            }
            if node.from > 0 {
                let before = Cursor::complete(EPOCH, end_of(node.from - 1));
                assert_eq!(node.gap(before), Some(Gap::Expired));
            }
            let other = Cursor::complete("other", end_of(end));
            assert_eq!(node.gap(other), Some(Gap::Restart));

            // Then it accepts clients and is killed; its file is from an earlier moment.
            node.serve();
            let begun = end;
            let next = (end + 1 + random.within(0..40)).min(log.messages.len() as u64);
            let copied = end + random.within(0..next - end + 1);
            let left = tempfile::tempdir().expect("a directory");
            while end < next {
                if end == copied {
                    node.router.graph().snapshot().expect("written");
                    copy(directory.path(), left.path());
                }
                let results = node.apply(&log).expect("in order");
                end = node.read();
                check_results(&log, &results, end, true);
                assert_eq!(node.edges(), log.edges[end as usize]);
            }
            if copied == next {
                node.router.graph().snapshot().expect("written");
                copy(directory.path(), left.path());
            }
            let served = log.events.range(end_of(begun) + 1..=end_of(end));
            let owed: BTreeMap<_, _> = served
                .map(|(position, owed)| (*position, owed.recipients.clone()))
                .collect();
            assert_eq!(*node.router.mailboxes().0.lock().expect("no panic"), owed);
            node.check_missed(&log, end_of(begun));
            let kept = node
                .router
                .graph()
                .log_start()
                .map_or(0, |at| at.last.sequence);
            first = first.max(random.within(0..kept / 2 + 2));
            directory = left;
        }
    }
}

/// Checks that only entries after the position of the graph have results.
fn check_refilled(log: &Log, node: &Node, results: &[Pending]) {
    let stored = node.router.graph().log_start().expect("it follows a log");
    if node.read() > stored.last.sequence {
        return check_results(log, results, node.read(), false);
    }
    assert!(results.iter().all(|result| matches!(result, Pending::None)));
}

#[test]
fn refilled_events_have_the_time_of_the_log() {
    let log = Log::new(9, 120);
    let directory = tempfile::tempdir().expect("a directory");
    let mut node = Node::start(directory.path(), 1).expect("a new graph");
    while node.read() < 120 {
        node.apply(&log).expect("in order");
    }
    assert!(log.repeats > 3, "{}", log.repeats);
    node.router.graph().end();
    drop(node);
    let mut again = Node::start(directory.path(), 1).expect("it goes on");
    while again.read() < 120 {
        again.apply(&log).expect("in order");
    }
    let oldest = |node: &Node| {
        let recorder = node.router.recorder().expect("it has a history");
        recorder.read(|history| history.oldest_seconds())
    };
    let first = log
        .events
        .iter()
        .find(|(position, owed)| owed.is_stored && **position > end_of(again.from));
    let sequence = first.expect("an event").0 >> 16;
    let expected = log.seconds[sequence as usize - 1];
    assert_eq!(oldest(&again).map(u64::from), Some(expected));
}

/// Returns the directory of a node that has applied 60 entries and ended cleanly.
fn ended(log: &Log) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let mut node = Node::start(directory.path(), 1).expect("a new graph");
    while node.read() < 60 {
        node.apply(log).expect("in order");
    }
    node.router.graph().end();
    directory
}

#[test]
fn a_start_avoids_the_oldest_entries_of_a_full_log() {
    let log = Log::new(6, 100);
    let directory = ended(&log);
    let graph = Graph::open_in_log(directory.path(), EPOCH).expect("our own graph");
    let places = graph.log_start().expect("it follows a log").clone();
    let stored = places.last.sequence;
    let begin = |first| {
        begin_from(&places, first)
            .expect("it is there")
            .read
            .number()
    };
    assert_eq!(
        begin(1),
        places.earlier[0].sequence,
        "a whole log loses none"
    );
    for first in 2..=stored + 1 {
        let spared = (stored + 1 - first) / 16;
        let begun = begin(first);
        assert!(
            begun == stored || first + spared <= begun + 1,
            "{first}: {begun}"
        );
        let skipped = places.earlier.iter().map(|place| place.sequence);
        let skipped = skipped.filter(|&place| place < begun && first + spared <= place + 1);
        assert_eq!(skipped.count(), 0, "{first}: {begun} is not the earliest");
    }
}

#[test]
fn a_trimmed_log_and_another_log_are_refused() {
    let log = Log::new(6, 100);
    let directory = ended(&log);
    let graph = Graph::open_in_log(directory.path(), EPOCH).expect("our own graph");
    let places = graph.log_start().expect("it follows a log").clone();
    drop(graph);
    let stored = places.last.sequence;
    assert!(places.earlier.len() > 3 && stored > 50);
    assert!(begin_from(&places, stored + 1).is_ok());
    let trimmed = begin_from(&places, stored + 2);
    let first = stored + 2;
    assert_eq!(trimmed, Err(StartError::Trimmed { stored, first }));
    let mut misplaced = places.clone();
    misplaced.earlier[0].sequence += 1;
    let misplaced = begin_from(&misplaced, 1);
    assert!(matches!(misplaced, Err(StartError::Misplaced { .. })));
    // The same sequences with other entries.
    let other = Log::new(7, 100);
    let mut node = Node::start(directory.path(), 1).expect("it goes on");
    let stopped = (node.from..stored).find_map(|_| node.apply(&other).err());
    let stopped = stopped.expect("the writers differ at the stored place");
    assert!(stopped.contains("differs from the one"), "{stopped}");
}

#[test]
fn a_node_stops_at_shared_state_of_a_newer_version_also_when_it_fills_its_history() {
    stops_at(&Command::Shared {
        kind: shared::BAN,
        bytes: vec![0; 3].into(),
    });
}

#[test]
fn a_node_stops_at_an_event_of_a_newer_version_also_when_it_fills_its_history() {
    let event = EventRecord {
        subject: id(1),
        reach: Reach::Subscribers,
        is_stored: true,
        tag: 1,
        event_type: "".into(),
        payload: "x".into(),
    };
    let tag = EventRecord {
        tag: 99,
        ..event.clone()
    };
    let event_type = EventRecord {
        event_type: "two\nlines".into(),
        ..event
    };
    for newer in [tag, event_type] {
        stops_at(&Command::Event(newer));
    }
}

/// In a rolling upgrade, a newer node may write what this version cannot read. Checks that a node
/// stops at such a command, before and after its own place in the log.
fn stops_at(newer: &Command) {
    let log = Log::new(6, 100);
    let directory = ended(&log);
    let newer = |sequence: StreamSequence| Entry {
        incarnation: Incarnation::new(11).expect("not 0"),
        number: sequence.number(),
        commands: vec![newer.clone()],
    };
    let stop = |node: &mut Node| {
        let mut after = node.reader.checkpoint().clone();
        after.read = node.reader.next();
        let read = EntryRead {
            after: &after,
            seconds: 1,
            is_own: false,
            ended: &[],
        };
        node.applier.apply(&newer(after.read), read)
    };
    for end in [0, 60] {
        let mut node = Node::start(directory.path(), 1).expect("it goes on");
        let places = node.router.graph().log_start().expect("it follows a log");
        assert!(node.from + 1 < places.last.sequence, "a history to fill");
        while node.read() < end {
            node.apply(&log).expect("in order");
        }
        let stopped = stop(&mut node).expect_err("it cannot read that");
        assert!(stopped.contains("update this node"), "{stopped}");
    }
}

#[test]
fn an_entry_is_applied_once_and_in_order() {
    let log = Log::new(8, 20);
    let directory = tempfile::tempdir().expect("a directory");
    let mut node = Node::start(directory.path(), 1).expect("a new graph");
    node.apply(&log).expect("the first");
    let again = node.reader.checkpoint().clone();
    let mut far = again.clone();
    far.read = StreamSequence::new(9).expect("small");
    for after in [&again, &far] {
        let read = EntryRead {
            after,
            seconds: 1,
            is_own: false,
            ended: &[],
        };
        assert!(node.applier.skip(read).is_err());
    }
}

#[test]
fn a_node_needs_a_graph_of_its_log_and_a_router_without_events() {
    let router = |graph| Arc::new(Router::new(EPOCH, graph, Mail::default()).with_history(LIMITS));
    let new = |router, from| Applier::new(router, None, from, HISTORY_BYTES, 0).err();
    let from = Checkpoint::default;
    let single = router(Arc::new(Graph::memory()));
    assert_eq!(new(single, from()), Some(StartError::NotInLog));
    let other = router(Arc::new(Graph::memory_in_log("other")));
    assert_eq!(new(other, from()), Some(StartError::OtherEpoch));
    let graph = || Arc::new(Graph::memory_in_log(EPOCH));
    let mut late = from();
    late.read = StreamSequence::new(3).expect("small");
    let too_late = StartError::TooLate { from: 3, stored: 0 };
    assert_eq!(new(router(graph()), late), Some(too_late));
    let used = router(graph());
    assert_eq!(new(Arc::clone(&used), from()), None);
    used.advance_head(Position::new(StreamSequence::new(1).expect("small"), 0).number());
    assert!(matches!(new(used, from()), Some(StartError::Numbered(_))));
    let refused = graph().subscribe(&id(1), &id(2));
    assert_eq!(refused, Err(GraphError::Replicated));
}
