//! Laws of the queue between publishers and the log's thread, in whatever order they take their
//! steps.

use std::sync::Arc;

use graph::{Graph, Id};
use history::Reach;
use router::{Event, Keep, Log as _, LogBatch, Marks, Payload, Tally};
use scheduled::{Condvar, Mutex, check, choose, spawn};

use super::world::LIMITS;
use crate::queue::{Queue, Taken};

/// Orders of each law by each scheduler.
const SCHEDULES: usize = 2_000;

const PUBLISHERS: usize = 3;
const BATCHES_EACH: usize = 2;

/// What the log's thread has taken.
#[derive(Default)]
struct Log {
    /// Tallies of batches, and the number of events of each.
    batches: Vec<(Arc<Tally>, u64)>,
    /// Position of the last record.
    last: u64,
    marks: Option<Marks>,
}

/// What the log's thread does, but for the disk.
fn take_all(queue: &Queue, taken_so_far: &Mutex<Log>, more: &Condvar) {
    let mut taken: Taken = queue.spare();
    while !taken.has_ended {
        queue.take(&mut taken, None);
        let mut log = taken_so_far.lock();
        assert!(log.last <= taken.last, "records go back");
        let events: u64 = taken.publishers.iter().map(|it| it.events).sum();
        assert_eq!(events, taken.events);
        log.last = taken.last;
        log.marks = Some(taken.marks);
        for publisher in &taken.publishers {
            let batch = (Arc::clone(&publisher.tally), publisher.events);
            log.batches.push(batch);
            publisher.tally.settle_stored(publisher.refused);
        }
        more.notify_all();
    }
}

/// Publishes batches of one event and of two, as the router does: positions and the order in the
/// queue under one lock, and the wake-up behind it.
fn publish(queue: &Queue, sequencer: &Mutex<u64>, keep: Keep) -> Vec<Arc<Tally>> {
    let event = Event {
        subject: Id::from(7),
        event_type: None,
        payload: Payload::text("x".into()),
    };
    let events = [event.clone(), event];
    let batches = (1..=BATCHES_EACH).map(|count| {
        let tally = Tally::new();
        tally.expect_stored();
        let mut head = sequencer.lock();
        let posted = LogBatch {
            first_position: *head + 1,
            events: &events[..count],
            keeps: &[keep; BATCHES_EACH][..count],
            seconds: 0,
            marks: Marks {
                head: *head + count as u64,
                cleared: 0,
            },
            note: None,
        };
        queue.append(&posted, &tally);
        *head += count as u64;
        drop(head);
        queue.wake();
        tally
    });
    batches.collect()
}

#[test]
fn each_batch_is_taken_once_and_in_order_and_none_waits_when_the_log_has_ended() {
    let key = Graph::memory().hold(&Id::from(7)).unwrap();
    check(SCHEDULES, move || {
        let keep = Keep::Store(key, Reach::Subscribers);
        let queue = Arc::new(Queue::new(0, &LIMITS, Arc::default()));
        let (sequencer, log) = (Arc::new(Mutex::new(0)), Arc::<Mutex<Log>>::default());
        let taker = {
            let (queue, log) = (Arc::clone(&queue), Arc::clone(&log));
            spawn(move || take_all(&queue, &log, &Condvar::new()))
        };
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|_| {
                let (queue, sequencer) = (Arc::clone(&queue), Arc::clone(&sequencer));
                spawn(move || publish(&queue, &sequencer, keep))
            })
            .collect();
        let ends_early = choose(2) == 0;
        if ends_early {
            queue.end();
        }
        let published = publishers.into_iter().flat_map(|it| it.join().unwrap());
        let published: Vec<_> = published.collect();
        queue.end();
        taker.join().unwrap();
        let log = log.lock();
        for tally in &published {
            assert_eq!(tally.storing(), 0, "a publisher waits");
            let of_it = log.batches.iter().filter(|it| Arc::ptr_eq(&it.0, tally));
            let times = of_it.count();
            let is_unstored = tally.unstored() > 0;
            assert!(times == 1 || (times == 0 && ends_early && is_unstored));
            assert!(times == 0 || !is_unstored);
        }
        let events: u64 = log.batches.iter().map(|it| it.1).sum();
        assert!(log.last >= events);
        assert!(ends_early || log.last == *sequencer.lock());
    });
}

#[test]
fn a_mark_of_what_the_history_has_cleared_is_taken_although_nothing_is_published() {
    check(SCHEDULES, || {
        let queue = Arc::new(Queue::new(9, &LIMITS, Arc::default()));
        let (log, more) = (Arc::<Mutex<Log>>::default(), Arc::new(Condvar::new()));
        let taker = {
            let (queue, log, more) = (Arc::clone(&queue), Arc::clone(&log), Arc::clone(&more));
            spawn(move || take_all(&queue, &log, &more))
        };
        let marks = Marks {
            head: 9,
            cleared: 5,
        };
        queue.mark(marks);
        let mut seen = log.lock();
        while seen.marks != Some(marks) {
            more.wait(&mut seen);
        }
        drop(seen);
        queue.end();
        taker.join().unwrap();
    });
}
