//! What a session missed, by the graph and the history together; and the planning periods.

use std::sync::{Arc, Mutex};

use graph::{Change, Graph, Id, Key};
use history::{Limits, Missed};
use reactor::SlotKey;
use router::{Batch, Event, Mailboxes, Parcel, Payload, Router, SessionRef, Tally, WorkerId};

const LARGE: Limits = Limits {
    bytes: 16 << 20,
    age_seconds: None,
};

/// Counts recipients.
#[derive(Default)]
struct Mailbox(Mutex<usize>);

impl Mailboxes for Mailbox {
    fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        *self.0.lock().expect("no test panics in here") += parcel.recipients();
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

fn event(subject: &str) -> Event {
    Event {
        subject: id(subject),
        event_type: None,
        payload: Payload::text("hello".into()),
    }
}

fn publish(router: &Router<Mailbox>, subject: &str) -> u64 {
    router.publish(event(subject), &Tally::new()).position
}

fn subscribe(router: &Router<Mailbox>, subscriber: &str, subject: &str) {
    let graph = router.graph();
    let subscribed = graph.subscribe(&id(subscriber), &id(subject));
    assert!(subscribed.expect("room"), "a new edge");
}

/// Holds the keys of a session's ids, as a login does.
fn keys(router: &Router<Mailbox>, ids: &[&str]) -> Vec<Key> {
    let hold = |text: &&str| router.graph().hold(&id(text)).expect("room");
    ids.iter().map(hold).collect()
}

fn missed(router: &Router<Mailbox>, keys: &[Key], after: u64) -> Vec<u64> {
    let mut missed = Vec::new();
    assert!(!router.missed(keys, after, u64::MAX, 100, &mut missed));
    missed.iter().map(|missed| missed.position).collect()
}

fn rewind(router: &Router<Mailbox>, keys: &[Key], count: usize) -> Vec<u64> {
    let mut found = Vec::new();
    assert!(!router.rewind(keys, 0, u64::MAX, count, 100, &mut found));
    found.iter().map(|found| found.position).collect()
}

#[test]
fn a_session_missed_what_concerns_it_and_nothing_else() {
    let router = router(LARGE);
    subscribe(&router, "alice", "rj");
    subscribe(&router, "bob", "alice");
    let alice = keys(&router, &["alice"]);
    assert_eq!(publish(&router, "rj"), 1);
    assert_eq!(publish(&router, "alice"), 2);
    publish(&router, "bob");
    router.send(event("rj"), &Tally::new());
    let sent = router.send(event("alice"), &Tally::new()).position;
    assert_eq!(sent, 5, "4 was for the sessions of rj alone");
    assert_eq!(missed(&router, &alice, 0), [1, 2, 5]);
    assert_eq!(missed(&router, &alice, 2), [5]);

    // The graph as it is now decides.
    router.graph().unsubscribe(&id("alice"), &id("rj")).unwrap();
    assert_eq!(missed(&router, &alice, 0), [2, 5]);
    let bob = keys(&router, &["bob"]);
    assert_eq!(rewind(&router, &bob, 1), [2, 3], "the last of each subject");
}

#[test]
fn events_from_before_a_subject_was_followed_do_not_come_however_the_edge_was_made() {
    let ways: [fn(&Router<Mailbox>); 3] = [
        |router| subscribe(router, "alice", "news"),
        |router| {
            let (subscriber, subjects) = (id("alice"), vec![id("old"), id("news")]);
            let change = Change::Replace {
                subscriber,
                subjects,
            };
            router.graph().change_now(change).unwrap();
        },
        |router| {
            let change = |subject| Change::Subscribe {
                subscriber: id("alice"),
                subject: id(subject),
            };
            let changes = vec![change("other"), change("news")];
            let effects = router.graph().change_all_now(changes);
            assert!(effects.iter().all(Result::is_ok));
        },
    ];
    for way in ways {
        let router = router(LARGE);
        subscribe(&router, "alice", "old");
        let alice = keys(&router, &["alice"]);
        publish(&router, "old");
        publish(&router, "news");
        way(&router);
        publish(&router, "news");
        publish(&router, "old");
        assert_eq!(missed(&router, &alice, 0), [1, 3, 4]);
        // An edge that ends and is made again begins again.
        router
            .graph()
            .unsubscribe(&id("alice"), &id("news"))
            .unwrap();
        subscribe(&router, "alice", "news");
        publish(&router, "news");
        assert_eq!(missed(&router, &alice, 0), [1, 4, 5]);
        assert_eq!(rewind(&router, &alice, 100), [1, 4, 5]);
    }
}

#[test]
fn a_session_of_many_ids_gets_each_event_once() {
    let router = router(LARGE);
    let session = keys(&router, &["alice", "bob"]);
    subscribe(&router, "alice", "news");
    subscribe(&router, "alice", "bob");
    publish(&router, "news");
    // Later, and so it does not hide what alice may read.
    subscribe(&router, "bob", "news");
    publish(&router, "news");
    router.send(event("bob"), &Tally::new());
    assert_eq!(missed(&router, &session, 0), [1, 2, 3]);
    assert_eq!(missed(&router, &session[1..], 0), [2, 3]);
}

#[test]
fn no_subject_is_passed_over_however_many_a_session_follows() {
    const SUBJECTS: u64 = 10_000;
    let router = router(LARGE);
    let alice = keys(&router, &["alice"]);
    let subjects: Vec<_> = (0..SUBJECTS).map(|n| id(&n.to_string())).collect();
    let subscriber = id("alice");
    let change = Change::Replace {
        subscriber,
        subjects,
    };
    router.graph().change_now(change).unwrap();
    for n in (0..SUBJECTS).rev() {
        publish(&router, &n.to_string());
    }
    let positions = |found: &[Missed]| found.iter().map(|event| event.position).collect::<Vec<_>>();
    let mut found = Vec::new();
    let (all, last) = (usize::MAX, 500);
    assert!(!router.missed(&alice, 0, u64::MAX, all, &mut found));
    assert!(positions(&found).into_iter().eq(1..=SUBJECTS), "in order");
    assert!(router.missed(&alice, 10, last, 100, &mut found));
    assert!(positions(&found).into_iter().eq(11..=110));
    assert!(!router.missed(&alice, 400, last, 100, &mut found));
    assert!(positions(&found).into_iter().eq(401..=500));
    router.latest(&alice, 10, last, 100, &mut found);
    assert!(positions(&found).into_iter().eq(401..=500));
    assert!(router.rewind(&alice, 10, last, 1, 100, &mut found));
    assert!(positions(&found).into_iter().eq(11..=110));
}

#[test]
fn a_login_between_plan_and_post_is_known_until_the_event_is_posted() {
    for is_posted in [true, false] {
        let router = router(LARGE);
        subscribe(&router, "alice", "rj");
        let mut batch = Batch::default();
        let mut planned = router.plan(&mut batch);
        planned.add(event("rj"));
        let slot = SlotKey {
            index: 0,
            generation: 0,
        };
        let session = SessionRef::new(WorkerId(0), slot);
        let alice = router.login(&id("alice"), session).unwrap();
        let live_from = router.period() + 2;
        for _ in 0..10 {
            assert!(router.try_advance() < live_from, "it would miss the event");
        }
        match is_posted {
            true => assert_eq!(planned.post(&Tally::new(), |_| ()), 1),
            false => drop(planned),
        }
        router.try_advance();
        assert!(router.try_advance() >= live_from);
        assert_eq!(router.head(), Some(u64::from(is_posted)));
        let live = *router.mailboxes().0.lock().unwrap();
        let fed = missed(&router, &[alice], 0);
        // An event for a subject with other subscribers is planned when it is added.
        assert_eq!((live, fed.len()), (0, usize::from(is_posted)));
    }
}

#[test]
fn a_plan_that_is_dropped_gives_its_keys_back() {
    let router = router(LARGE);
    let before = router.graph().counts().ids;
    let mut batch = Batch::default();
    for _ in 0..3 {
        let mut planned = router.plan(&mut batch);
        planned.add(event("unknown"));
        planned.add_unstored(event("unknown"));
        drop(planned);
        assert_eq!(router.graph().counts().ids, before);
    }
    assert_eq!(publish(&router, "rj"), 1, "nothing of it was numbered");
}

#[test]
fn publishers_are_not_counted_without_a_history() {
    let graph = Arc::new(Graph::memory());
    let router = Router::new("e", graph, Mailbox::default());
    let mut batch = Batch::default();
    let planned = router.plan(&mut batch);
    assert_eq!((router.try_advance(), router.try_advance()), (1, 2));
    drop(planned);
}
