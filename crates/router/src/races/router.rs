//! Laws of the way of events through the router, beside logins.

use std::sync::Arc;

use graph::{Graph, Id};
use history::{History, Limits};
use reactor::SlotKey;
use scheduled::{JoinHandle, Mutex, block_on, check, spawn, yield_now};

use super::SCHEDULES;
use crate::event::{Event, Payload};
use crate::mailboxes::Mailboxes;
use crate::plan::{Batch, Parcel};
use crate::route::Router;
use crate::session::{SessionRef, WorkerId};
use crate::tally::{Counts, Tally};

const WORKERS: u16 = 2;
const PUBLISHERS: u64 = 2;
/// Events in each of a publisher's batches.
const BATCHES: [u64; 2] = [2, 1];
const EVENTS: u64 = PUBLISHERS * (BATCHES[0] + BATCHES[1]);

/// Mailboxes without a bound, of workers that do not sleep.
#[derive(Default)]
struct Post([Mutex<Vec<Parcel>>; WORKERS as usize]);

impl Post {
    fn take(&self, worker: WorkerId) -> Vec<Parcel> {
        std::mem::take(&mut self.0[usize::from(worker.0)].lock())
    }
}

impl Mailboxes for Post {
    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        self.0[usize::from(worker.0)].lock().push(parcel);
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

fn router() -> Arc<Router<Post>> {
    let limits = Limits {
        bytes: 1 << 20,
        age_seconds: None,
    };
    let router = Router::new("e", Arc::new(Graph::memory()), Post::default()).with_slice(3);
    Arc::new(router.with_history(limits))
}

fn subject() -> Id {
    Id::from(1)
}

fn session(worker: u16) -> SessionRef {
    let (index, generation) = (0, 0);
    SessionRef::new(WorkerId(worker), SlotKey { index, generation })
}

/// Publishes all events, and calls `awaits` with the tally of each batch and the number of its
/// events.
fn publish(router: &Arc<Router<Post>>, awaits: fn(&Arc<Tally>, u64)) -> Vec<JoinHandle<()>> {
    let publishers = (0..PUBLISHERS).map(|_| {
        let router = Arc::clone(router);
        spawn(move || {
            let mut batch = Batch::default();
            for count in BATCHES {
                let tally = Tally::new();
                let mut planned = router.plan(&mut batch);
                for _ in 0..count {
                    planned.add(Event {
                        subject: subject(),
                        event_type: None,
                        payload: Payload::text("hello".into()),
                    });
                }
                planned.post(&tally, |_| {});
                awaits(&tally, count);
            }
        })
    });
    publishers.collect()
}

fn positions(parcel: &Parcel) -> impl Iterator<Item = u64> {
    let deliveries = parcel.deliveries.iter();
    deliveries.map(|delivery| parcel.first_position + u64::from(delivery.event))
}

fn stored(router: &Router<Post>) -> u64 {
    router.recorder().expect("there is one").read(History::head)
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no panic");
    }
}

#[test]
fn all_workers_get_all_events_in_one_order_and_find_them_in_the_history() {
    check(SCHEDULES, || {
        let router = router();
        for worker in 0..WORKERS {
            router
                .login(&subject(), session(worker))
                .expect("an integer");
        }
        let workers = (0..WORKERS).map(|worker| {
            let router = Arc::clone(&router);
            spawn(move || {
                let mut last = 0;
                while last < EVENTS {
                    let head = router.head().expect("it has a history");
                    for parcel in router.mailboxes().take(WorkerId(worker)) {
                        for position in positions(&parcel) {
                            assert_eq!(position, last + 1);
                            last = position;
                            parcel.tally.add(Counts {
                                written: 1,
                                ..Counts::default()
                            });
                        }
                        let stored = stored(&router);
                        assert!(stored >= last, "event {last}, and {stored} are stored");
                        parcel.tally.settle();
                    }
                    assert!(last >= head, "the head is {head}, and {last} has come");
                    yield_now();
                }
            })
        });
        let workers = workers.collect();
        join(publish(&router, |tally, count| {
            let counts = block_on(tally.done());
            assert_eq!(counts.written, count * u64::from(WORKERS));
        }));
        join(workers);
        assert_eq!((stored(&router), router.head()), (EVENTS, Some(EVENTS)));
    });
}

// The model in `planning` has the same law; here are the parts that it stands for.
#[test]
fn a_session_that_comes_back_has_each_event_from_the_history_or_live() {
    check(SCHEDULES, || {
        let router = router();
        let publishers = publish(&router, |_, _| {});
        let key = router.login(&subject(), session(0)).expect("an integer");
        let live_from = router.period() + 2;
        while router.try_advance() < live_from {
            yield_now();
        }
        let head = router.head().expect("it has a history");
        let mut missed = Vec::new();
        assert!(!router.missed(&[key], 0, head, 100, &mut missed));
        join(publishers);
        let mut has: Vec<u64> = missed.iter().map(|missed| missed.position).collect();
        assert!(has.iter().copied().eq(1..=head), "{has:?} of {head}");
        for parcel in router.mailboxes().take(WorkerId(0)) {
            has.extend(positions(&parcel).filter(|&position| position > head));
        }
        assert!(has.iter().copied().eq(1..=EVENTS), "{has:?} of {EVENTS}");
        router.logout(key, session(0));
        assert!(router.is_without_sessions());
    });
}
