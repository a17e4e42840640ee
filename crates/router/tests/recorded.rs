//! The history that a router records.

#![expect(
    clippy::disallowed_methods,
    reason = "publishers of a test run on threads of their own"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;

use graph::{Graph, Id};
use history::{Cursor, Followed, History, Limits, Missed, Reach};
use reactor::SlotKey;
use router::{
    Batch, ContentType, Event, EventType, Mailboxes, Parcel, Payload, Router, SessionRef, Tally,
    WorkerId,
};

const LARGE: Limits = Limits {
    bytes: 16 << 20,
    age_seconds: None,
};

/// One worker's mailbox.
#[derive(Default)]
struct Mailbox(Mutex<Vec<Parcel>>);

impl Mailboxes for Mailbox {
    fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        self.0.lock().expect("no test panics in here").push(parcel);
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

fn router(limits: Limits) -> Router<Mailbox> {
    let graph = Arc::new(Graph::memory());
    Router::new("e", graph, Mailbox::default()).with_history(limits)
}

fn id(text: &str) -> Id {
    Id::parse(text).expect("a valid id")
}

fn text(subject: &str, payload: &str) -> Event {
    Event {
        subject: id(subject),
        event_type: None,
        payload: Payload::text(payload.to_owned().into()),
    }
}

fn read<T>(router: &Router<Mailbox>, read: impl FnOnce(&History) -> T) -> T {
    router.recorder().expect("it has a history").read(read)
}

/// Position, reach and payload of all events about `subject`.
fn stored(router: &Router<Mailbox>, subject: &str) -> Vec<(u64, Reach, String)> {
    let Some(key) = router.graph().find(&id(subject)) else {
        return Vec::new();
    };
    let followed = Followed {
        key,
        after: 0,
        is_own: true,
    };
    read(router, |history| {
        let mut missed = Vec::new();
        assert!(!history.missed([followed], u64::MAX, usize::MAX, &mut missed));
        let entry = |&Missed { place, .. }: &Missed| {
            let entry = history.get(place).expect("just found").entry;
            let payload = String::from_utf8_lossy(entry.payload).into_owned();
            (entry.position, entry.reach, payload)
        };
        missed.iter().map(entry).collect()
    })
}

#[test]
fn published_and_sent_events_are_stored_with_what_they_are() {
    let router = router(LARGE);
    let tally = Tally::new();
    router.publish(text("rj", "to all"), &tally);
    router.send(text("rj", "to rj"), &tally);
    let expected = [
        (1, Reach::Subscribers, "to all".to_owned()),
        (2, Reach::Subject, "to rj".to_owned()),
    ];
    assert_eq!(stored(&router, "rj"), expected);

    let event_type: EventType = "note".parse().unwrap();
    for (number, payload) in [
        (3, Payload::json("{}".into())),
        (4, Payload::text("{}".into())),
        (5, Payload::binary("{}".into())),
    ] {
        let content_type = payload.content_type();
        let event_type = Some(event_type.clone());
        let subject = Id::from(7);
        router.publish(
            Event {
                subject,
                event_type,
                payload,
            },
            &tally,
        );
        let key = router.graph().find(&Id::from(7)).unwrap();
        let followed = Followed {
            key,
            after: number - 1,
            is_own: false,
        };
        read(&router, |history| {
            let mut missed = Vec::new();
            history.missed([followed], u64::MAX, 10, &mut missed);
            let entry = history.get(missed[0].place).unwrap().entry;
            assert_eq!(ContentType::of_tag(entry.tag), Some(content_type));
            assert_eq!((entry.event_type, entry.position), ("note", number));
        });
    }
}

#[test]
fn an_id_keeps_its_key_while_an_event_of_it_is_stored_and_no_longer() {
    let router = router(Limits {
        bytes: 24 << 10,
        age_seconds: Some(60),
    });
    let graph = router.graph();
    let before = graph.counts().ids;
    let unknown = id("unknown");
    router.publish(text("unknown", "first"), &Tally::new());
    let key = graph.find(&unknown).expect("it is held");
    assert_eq!(graph.name(key), Some(unknown.clone()));
    for number in 0..1000 {
        router.publish(
            text(&format!("other {}", number % 7), "more"),
            &Tally::new(),
        );
    }
    assert_eq!(stored(&router, "unknown"), [], "it has left by now");
    assert_eq!(
        graph.find(&unknown),
        None,
        "its key is released with its last event"
    );
    assert_eq!(graph.counts().ids, before + 7);
    router.tick(61);
    assert_eq!(
        graph.counts().ids,
        before,
        "one reference for each id, however many events"
    );
}

#[test]
fn events_that_are_not_to_be_stored_are_not_and_leave_no_gap() {
    let router = router(LARGE);
    let slot = SlotKey {
        index: 0,
        generation: 0,
    };
    let session = SessionRef::new(WorkerId(0), slot);
    router.login(&id("rj"), session).expect("a new id");
    let mut batch = Batch::default();
    let mut planned = router.plan(&mut batch);
    planned.add(text("rj", "one"));
    planned.add_unstored(text("rj", "two"));
    planned.add(text("rj", "three"));
    planned.post(&Tally::new(), |_| ());
    let parcels = std::mem::take(&mut *router.mailboxes().0.lock().unwrap());
    let deliveries = parcels[0].deliveries.iter();
    let told: Vec<_> = deliveries.map(|delivery| delivery.is_stored).collect();
    assert_eq!(told, [true, false, true], "workers know it");
    let positions: Vec<_> = stored(&router, "rj").iter().map(|event| event.0).collect();
    assert_eq!(positions, [1, 3]);
    let gap = read(&router, |history| {
        history.gap("e", Cursor::complete("e", 1))
    });
    assert_eq!(gap, None);
}

#[test]
fn events_leave_when_they_are_too_old() {
    let router = router(Limits {
        age_seconds: Some(60),
        ..LARGE
    });
    let graph = router.graph();
    router.tick(1_000);
    router.publish(text("early", "1"), &Tally::new());
    router.tick(1_050);
    router.publish(text("late", "2"), &Tally::new());
    router.tick(1_060);
    assert_eq!(stored(&router, "early").len(), 1, "60 seconds old");
    router.tick(1_061);
    assert_eq!(stored(&router, "early"), []);
    assert_eq!(graph.find(&id("early")), None, "its key is released");
    assert_eq!(stored(&router, "late").len(), 1);
}

#[test]
fn the_history_has_the_order_of_the_mailboxes_however_many_publish() {
    const PUBLISHERS: usize = 4;
    const EACH: usize = 300;
    let router = router(LARGE);
    let slot = SlotKey {
        index: 0,
        generation: 0,
    };
    let rj = id("rj");
    router
        .login(&rj, SessionRef::new(WorkerId(0), slot))
        .unwrap();
    thread::scope(|threads| {
        for publisher in 0..PUBLISHERS {
            let router = &router;
            threads.spawn(move || {
                for number in 0..EACH {
                    router.publish(text("rj", &format!("{publisher} {number}")), &Tally::new());
                }
            });
        }
        // What a worker has taken from its mailbox it finds in the history.
        let mut taken = 0;
        while taken < PUBLISHERS * EACH {
            let parcels = std::mem::take(&mut *router.mailboxes().0.lock().unwrap());
            taken += parcels.len();
            if let Some(last) = parcels.last() {
                let head = read(&router, History::head);
                assert!(
                    head >= last.first_position,
                    "{head} < {}",
                    last.first_position
                );
            }
            thread::yield_now();
        }
    });
    let stored = stored(&router, "rj");
    let positions: Vec<_> = stored.iter().map(|event| event.0).collect();
    assert!(positions.iter().copied().eq(1..=(PUBLISHERS * EACH) as u64));
    let mut next = BTreeMap::new();
    for (_, _, payload) in stored {
        let (publisher, number) = payload.split_once(' ').unwrap();
        let next = next.entry(publisher.to_owned()).or_insert(0);
        assert_eq!(number, next.to_string(), "of publisher {publisher}");
        *next += 1;
    }
}

#[test]
fn a_session_missed_what_concerns_its_ids_by_the_graph_as_it_is_now() {
    let router = router(LARGE);
    let tally = Tally::new();
    for (subscriber, subject) in [("alice", "news"), ("alice", "bob"), ("carol", "gone")] {
        router
            .graph()
            .subscribe(&id(subscriber), &id(subject))
            .unwrap();
    }
    for subject in ["news", "gone", "bob", "other"] {
        router.publish(text(subject, "published"), &tally);
        router.send(text(subject, "sent"), &tally);
    }
    router
        .graph()
        .unsubscribe(&id("carol"), &id("gone"))
        .unwrap();
    let key = |text: &str| router.graph().hold(&id(text)).unwrap();
    let missed = |keys: &[_], after| {
        let mut missed = Vec::new();
        let last = router.head().expect("it has a history");
        assert!(!router.missed(keys, after, last, 100, &mut missed));
        let positions: Vec<_> = missed.iter().map(|missed| missed.position).collect();
        let mut latest = Vec::new();
        router.latest(keys, after, last, 2, &mut latest);
        let skipped = positions.len().saturating_sub(2);
        assert_eq!(latest, missed[skipped..]);
        positions
    };
    assert_eq!(
        missed(&[key("alice")], 0),
        [1, 5],
        "what is sent is not for her"
    );
    assert_eq!(missed(&[key("alice"), key("bob")], 0), [1, 5, 6]);
    assert_eq!(missed(&[key("alice"), key("bob")], 5), [6]);
    assert_eq!(missed(&[key("carol")], 0), [0; 0]);
    let mut found = Vec::new();
    assert!(!router.rewind(&[key("bob"), key("alice")], 0, 8, 1, 10, &mut found));
    let positions: Vec<_> = found.iter().map(|missed| missed.position).collect();
    assert_eq!(positions, [1, 6]);
}

#[test]
fn what_was_found_earlier_is_kept_while_it_concerns_the_session() {
    let router = router(LARGE);
    let tally = Tally::new();
    let graph = router.graph();
    for subject in ["news", "gone", "again"] {
        graph.subscribe(&id("alice"), &id(subject)).unwrap();
    }
    graph.subscribe(&id("bob"), &id("alice")).unwrap();
    for subject in ["news", "alice", "gone", "again"] {
        router.publish(text(subject, "published"), &tally);
    }
    router.send(text("alice", "sent"), &tally);
    let alice = graph.hold(&id("alice")).unwrap();
    let mut found = Vec::new();
    router.missed(&[alice], 0, 5, 100, &mut found);
    let mut retained = |after| {
        router.retain_concerning(&[alice], after, &mut found);
        found
            .iter()
            .map(|missed| missed.position)
            .collect::<Vec<_>>()
    };
    assert_eq!(retained(0), [1, 2, 3, 4, 5]);
    graph.unsubscribe(&id("alice"), &id("gone")).unwrap();
    graph.unsubscribe(&id("alice"), &id("again")).unwrap();
    graph.subscribe(&id("alice"), &id("again")).unwrap();
    assert_eq!(retained(0), [1, 2, 5]);
    assert_eq!(retained(1), [2, 5]);
    // It is no longer alice, and follows it: what was sent to alice alone is none of its.
    let bob = graph.hold(&id("bob")).unwrap();
    router.retain_concerning(&[bob], 0, &mut found);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].position, 2);
}
