//! Laws of the threads that write, in whatever order they and those who wait for them take their
//! steps.

use std::sync::Arc;

use scheduled::{Condvar, Mutex, check, choose, spawn, yield_now};
use simulated::disk::{Disk, Faults, Nth};

use super::super::Store;
use super::crash::empty_file;
use crate::key::Key;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::places::{Checkpoint, LogPlaces};
use crate::replica::Replica;
use crate::writer::Writer;
use crate::{Change, GraphError, Id};

/// Orders of each law by each scheduler. An order writes a file in memory, in a millisecond.
const SCHEDULES: usize = 1_000;

/// Opens a graph. Often one of its first syncs fails.
fn open(file: &[u8]) -> (Store, Arc<Memory>) {
    let disk = Disk::from(file.to_vec());
    let (store, memory) = Store::open(Arc::new(disk.file()), Limits::SMALL).expect("a good file");
    let fails = [None, Some(1), Some(2), Some(3)][choose(4)];
    disk.set(Faults {
        failed_at: fails.map(|nth| Nth::Sync(disk.syncs() + nth)),
        ..Faults::default()
    });
    (store, Arc::new(memory))
}

const SUBMITTERS: u32 = 3;
const SUBMISSIONS_EACH: u32 = 2;

/// Answer to a submission: its subscriber and subject, and what was answered.
type Given = (u32, u32, Result<(), GraphError>);

#[derive(Default)]
struct Answers {
    given: Mutex<Vec<Given>>,
    more: Condvar,
}

/// Lets each of some threads submit edges, which are answered as memory shows them.
fn submit(writer: &Writer, memory: &Arc<Memory>, answers: &Arc<Answers>, subscriber: u32) {
    for subject in 100..100 + SUBMISSIONS_EACH {
        let (memory, answers) = (Arc::clone(memory), Arc::clone(answers));
        let change = Change::Subscribe {
            subscriber: Id::from(subscriber),
            subject: Id::from(subject),
        };
        writer.submit(vec![change], move |mut answer| {
            let keys = [subscriber, subject].map(Key::from_number);
            let result = answer.pop().expect("one result").map(|_| ());
            let is_seen = memory.adjacency.contains(keys[0], keys[1]);
            assert_eq!(is_seen, result.is_ok(), "{result:?}");
            answers.given.lock().push((subscriber, subject, result));
            answers.more.notify_one();
        });
    }
}

#[test]
fn each_submission_is_answered_once_as_it_was_made_and_none_waits_in_the_end() {
    let file = empty_file();
    check(SCHEDULES, move || {
        let (store, memory) = open(&file);
        let writer = Writer::start(store, Arc::clone(&memory)).expect("a thread");
        let (writer, answers) = (Arc::new(writer), Arc::new(Answers::default()));
        let submitters = (0..SUBMITTERS).map(|subscriber| {
            let (writer, memory) = (Arc::clone(&writer), Arc::clone(&memory));
            let answers = Arc::clone(&answers);
            spawn(move || submit(&writer, &memory, &answers, subscriber))
        });
        let submitters: Vec<_> = submitters.collect();
        let ends_early = choose(2) == 0;
        if ends_early {
            writer.end();
        }
        let mut given = answers.given.lock();
        while given.len() < (SUBMITTERS * SUBMISSIONS_EACH) as usize {
            answers.more.wait(&mut given);
        }
        drop(given);
        for submitter in submitters {
            submitter.join().expect("no panic");
        }
        assert_eq!(writer.waiting(), 0);
        writer.end();
        let mut given = std::mem::take(&mut *answers.given.lock());
        given.sort_by_key(|&(subscriber, subject, _)| (subscriber, subject));
        let all = (0..SUBMITTERS)
            .flat_map(|from| (100..100 + SUBMISSIONS_EACH).map(move |to| (from, to)));
        assert!(all.eq(given.iter().map(|&(from, to, _)| (from, to))));
        for (.., result) in given {
            match result {
                Ok(()) | Err(GraphError::Disk { .. }) => {}
                Err(GraphError::Ended) => assert!(ends_early),
                Err(error) => panic!("{error}"),
            }
        }
        submit(&writer, &memory, &answers, SUBMITTERS);
        let refused = answers.given.lock();
        assert!(
            refused.iter().all(|(.., it)| *it == Err(GraphError::Ended)),
            "{refused:?}"
        );
        assert_eq!(refused.len(), SUBMISSIONS_EACH as usize);
    });
}

/// Edges of the entries of a log: a third one waits for the disk until there is room, and is too
/// small to be written at once for its size.
const ENTRIES: [u32; 3] = [40, 40, 1];
const LAST: u64 = ENTRIES.len() as u64;

fn follow(replica: &Replica, memory: &Memory) {
    for (sequence, edges) in (1..).zip(ENTRIES) {
        let change = Change::Replace {
            subscriber: Id::from(sequence as u32),
            subjects: (100..100 + edges).map(Id::from).collect(),
        };
        assert!(replica.apply(memory, [&change])[0].is_ok());
        let table = Box::default();
        replica.place(Checkpoint { sequence, table }, sequence == 2);
    }
}

#[test]
fn what_has_a_place_is_on_disk_soon_and_neither_thread_waits_for_ever() {
    let file = empty_file();
    check(SCHEDULES, move || {
        let (store, memory) = open(&file);
        let start = LogPlaces {
            epoch: "log".into(),
            ..LogPlaces::default()
        };
        let replica = Replica::durable(store, Arc::clone(&memory), start).expect("a thread");
        let replica = Arc::new(replica);
        let applies = {
            let (replica, memory) = (Arc::clone(&replica), Arc::clone(&memory));
            spawn(move || follow(&replica, &memory))
        };
        let ends_early = choose(3) == 0;
        if ends_early {
            replica.end();
        }
        applies.join().expect("no panic");
        let stored = || replica.stored().expect("it is on disk");
        while !ends_early && stored().sequence < LAST {
            yield_now();
        }
        replica.end();
        if !ends_early {
            assert_eq!((stored().edges_waiting, stored().failure), (0, None));
        }
        let seen = memory.adjacency.counts().0;
        assert_eq!(seen, ENTRIES.iter().sum::<u32>() as usize);
    });
}
