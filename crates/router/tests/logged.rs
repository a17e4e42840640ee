//! Laws of a recorder with a log: the log gets what the history stores, in its order, and what a
//! log had stored comes back.

#![expect(
    clippy::disallowed_methods,
    reason = "publishers of a test run on threads of their own"
)]

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use graph::{Graph, Id};
use history::{Cursor, Gap, History, Limits, Reach};
use router::{
    Batch, Event, Keep, Log, LogBatch, LogMetrics, Mailboxes, Marks, Parcel, Payload, Recorder,
    Restored, RestoredEvent, Router, Tally, WorkerId,
};

const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    age_seconds: None,
};

struct NoWorkers;

impl Mailboxes for NoWorkers {
    fn post(&self, _: WorkerId, _: Parcel) -> Result<(), Parcel> {
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

/// Log in memory. Its tallies are settled by the test.
#[derive(Debug, Default)]
struct MemoryLog {
    stored: Mutex<Vec<(u64, String)>>,
    tallies: Mutex<Vec<Arc<Tally>>>,
    marks: Mutex<Vec<Marks>>,
}

impl Log for MemoryLog {
    fn append(&self, batch: &LogBatch<'_>, tally: &Arc<Tally>) {
        let mut stored = self.stored.lock().expect("no test panics in here");
        for ((position, event), keep) in (batch.first_position..).zip(batch.events).zip(batch.keeps)
        {
            if matches!(keep, Keep::Store(..)) {
                stored.push((position, event.subject.to_string()));
            }
        }
        self.tallies.lock().expect("as above").push(tally.clone());
        self.mark(batch.marks);
    }

    fn mark(&self, marks: Marks) {
        self.marks.lock().expect("as above").push(marks);
    }

    fn wake(&self) {}

    fn metrics(&self) -> LogMetrics {
        LogMetrics::default()
    }
}

fn logged() -> (Router<NoWorkers>, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let mut recorder = Recorder::new(LIMITS);
    recorder.set_log(log.clone());
    let router = Router::new("e", Arc::new(Graph::memory()), NoWorkers).with_recorder(recorder);
    (router, log)
}

fn id(text: &str) -> Id {
    Id::parse(text).expect("a valid id")
}

fn event(subject: &str) -> Event {
    Event {
        subject: id(subject),
        event_type: None,
        payload: Payload::text("x".into()),
    }
}

#[test]
fn the_log_has_what_the_history_has_in_its_order() {
    let (router, log) = logged();
    thread::scope(|scope| {
        for publisher in 0..4 {
            let router = &router;
            scope.spawn(move || {
                for number in 0..500 {
                    router.publish(event(&format!("s{publisher}-{number}")), &Tally::new());
                }
            });
        }
    });
    let mut batch = Batch::default();
    let mut planned = router.plan(&mut batch);
    planned.add(event("kept"));
    planned.add_unstored(event("unstored"));
    planned.add(event("last"));
    planned.post(&Tally::new(), |_| ());
    let stored = log.stored.lock().expect("no test panics in here");
    assert_eq!(stored.len(), 2002);
    assert!(stored.windows(2).all(|two| two[0].0 < two[1].0));
    assert_eq!(
        stored[2000..],
        [(2001, "kept".into()), (2003, "last".into())]
    );
    let marks = log.marks.lock().expect("as above");
    assert_eq!(
        marks.last(),
        Some(&Marks {
            head: 2003,
            cleared: 0
        })
    );
}

#[test]
fn a_publisher_waits_for_the_log_and_learns_what_it_could_not_store() {
    for unstored in [0, 1] {
        let (router, log) = logged();
        let tally = Tally::new();
        router.publish(event("a"), &tally);
        let mut context = Context::from_waker(Waker::noop());
        let (mut done, mut stored) = (Box::pin(tally.done()), Box::pin(tally.stored()));
        assert!(done.as_mut().poll(&mut context).is_pending());
        assert!(stored.as_mut().poll(&mut context).is_pending());
        for tally in log.tallies.lock().expect("as above").drain(..) {
            tally.settle_stored(unstored);
        }
        assert_eq!(stored.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(done.as_mut().poll(&mut context).is_ready());
        assert_eq!(tally.unstored(), unstored);
    }
}

#[test]
fn what_a_log_had_stored_is_found_by_the_keys_of_this_run_and_numbers_go_on() {
    let graph = Arc::new(Graph::memory());
    // The keys of the run before were others.
    let other = graph.hold(&id("other")).expect("room");
    let mut recorder = Recorder::new(LIMITS);
    let restored = |position, subject: &str| {
        Restored::Event(RestoredEvent {
            position,
            subject: id(subject),
            reach: Reach::Subject,
            tag: 1,
            seconds: 7,
            event_type: "t",
            payload: b"p",
        })
    };
    for part in [
        Restored::Lost(10),
        restored(11, "a"),
        Restored::Abandoned(50),
        restored(52, "a"),
        restored(53, "other"),
        Restored::Skipped(60),
    ] {
        recorder.restore(&part, &graph);
    }
    let router = Router::new("e", graph, NoWorkers).with_recorder(recorder);
    assert_eq!(router.publish(event("a"), &Tally::new()).position, 61);
    let key = router.graph().find(&id("a")).expect("its events hold it");
    assert_ne!(key, other);
    let gap = |position| {
        let cursor = Cursor::complete("e", position);
        let recorder = router.recorder().expect("it has a history");
        recorder.read(|history: &History| history.gap("e", cursor))
    };
    assert_eq!((gap(9), gap(10)), (Some(Gap::Expired), None));
    assert_eq!(
        (gap(20), gap(52), gap(62)),
        (Some(Gap::Restart), None, Some(Gap::Unknown))
    );
    router.graph().release(other);
    assert!(router.graph().find(&id("other")).is_some());
}
