//! The router against a model that keeps everything in plain sets.

#![expect(
    clippy::disallowed_methods,
    reason = "publishers of a test run on threads of their own"
)]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use graph::{Graph, Id, Key};
use history::{Limits, Reach};
use proptest::prelude::*;
use reactor::SlotKey;
use router::{
    Batch, Counts, Event, Mailboxes, Parcel, Payload, Router, SessionRef, Tally, WorkerId,
};

const WORKERS: u16 = 3;

/// Mailboxes that keep what they are given, up to a bound.
struct Kept {
    boxes: Vec<Mutex<Vec<Parcel>>>,
    bound: usize,
}

impl Kept {
    fn new(bound: usize) -> Self {
        Self {
            boxes: (0..WORKERS).map(|_| Mutex::default()).collect(),
            bound,
        }
    }

    fn take(&self) -> Vec<(WorkerId, Parcel)> {
        let take = |(worker, mailbox): (usize, &Mutex<Vec<_>>)| {
            let parcels = std::mem::take(&mut *mailbox.lock().expect("no test panics in here"));
            parcels
                .into_iter()
                .map(move |parcel| (WorkerId(worker as u16), parcel))
        };
        self.boxes.iter().enumerate().flat_map(take).collect()
    }
}

impl Mailboxes for Kept {
    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        let mut mailbox = self.boxes[usize::from(worker.0)]
            .lock()
            .expect("no test panics in here");
        if mailbox.len() >= self.bound {
            return Err(parcel);
        }
        mailbox.push(parcel);
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

fn router(bound: usize) -> Router<Kept> {
    Router::new("e", Arc::new(Graph::memory()), Kept::new(bound))
}

/// Ids near each other, far apart, beyond 2^31 and textual.
const NAMES: [&str; 8] = [
    "0",
    "1",
    "63",
    "64",
    "2147483647",
    "2147483648",
    "rj",
    "bob",
];

fn id(name: usize) -> Id {
    Id::parse(NAMES[name]).expect("a valid id")
}

fn event(subject: usize, text: String) -> Event {
    Event {
        subject: id(subject),
        event_type: None,
        payload: Payload::text(text.into()),
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Login { name: usize, session: u32 },
    Logout { nth: usize },
    Subscribe { subscriber: usize, subject: usize },
    Unsubscribe { subscriber: usize, subject: usize },
    Publish { subject: usize },
    PublishUnstored { subject: usize },
    Send { subject: usize },
    Defer { nth: usize },
    Undefer { nth: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => (name.clone(), 0..12_u32)
            .prop_map(|(name, session)| Operation::Login { name, session }),
        2 => any::<usize>().prop_map(|nth| Operation::Logout { nth }),
        3 => (name.clone(), name.clone())
            .prop_map(|(subscriber, subject)| Operation::Subscribe { subscriber, subject }),
        1 => (name.clone(), name.clone())
            .prop_map(|(subscriber, subject)| Operation::Unsubscribe { subscriber, subject }),
        4 => name.clone().prop_map(|subject| Operation::Publish { subject }),
        1 => name.clone().prop_map(|subject| Operation::PublishUnstored { subject }),
        2 => name.prop_map(|subject| Operation::Send { subject }),
        2 => any::<usize>().prop_map(|nth| Operation::Defer { nth }),
        1 => any::<usize>().prop_map(|nth| Operation::Undefer { nth }),
    ]
}

fn session(number: u32) -> SessionRef {
    SessionRef::new(
        WorkerId((number % u32::from(WORKERS)) as u16),
        SlotKey {
            index: number * 7,
            generation: number,
        },
    )
}

fn names(worker: WorkerId, recipients: &[SlotKey]) -> impl Iterator<Item = SessionRef> {
    let name = move |&key: &SlotKey| SessionRef::new(worker, key);
    recipients.iter().map(name)
}

#[derive(Default)]
struct Model {
    logins: BTreeMap<(usize, u32), Key>,
    edges: BTreeSet<(usize, usize)>,
    /// Logins that are deferred, with the number of stored events planned meanwhile.
    deferred: BTreeMap<(usize, u32), u64>,
}

impl Model {
    /// Returns the nth login of a session that has no other.
    fn single(&self, nth: usize) -> Option<(usize, u32)> {
        let logins = |number| self.logins.keys().filter(move |login| login.1 == number);
        let mut single: Vec<_> = self.logins.keys().copied().collect();
        single.retain(|&(_, number)| logins(number).count() == 1);
        let count = single.len().max(1);
        single.get(nth % count).copied()
    }

    fn readers(&self, subject: usize, subscribers_too: bool) -> BTreeSet<usize> {
        let subscribers = self
            .edges
            .iter()
            .filter(|edge| subscribers_too && edge.1 == subject);
        subscribers.map(|edge| edge.0).chain([subject]).collect()
    }
}

proptest! {
    #[test]
    fn a_publish_reaches_exactly_the_sessions_of_subscribers(
        operations in prop::collection::vec(operation(), 1..120),
        history_bytes in prop_oneof![Just(None), Just(Some(0)), Just(Some(24 << 10))],
    ) {
        let mut router = router(usize::MAX);
        if let Some(bytes) = history_bytes {
            router = router.with_history(Limits { bytes, age_seconds: None });
        }
        let mut model = Model::default();
        let mut last = 0;
        for (at, operation) in operations.into_iter().enumerate() {
            let (subject, subscribers_too) = match operation {
                Operation::Login { session: number, .. }
                    if model.deferred.keys().any(|login| login.1 == number) => continue,
                Operation::Login { name, session: number } => {
                    if let Entry::Vacant(vacant) = model.logins.entry((name, number)) {
                        vacant.insert(router.login(&id(name), session(number)).expect("room"));
                    }
                    continue;
                }
                Operation::Logout { nth } => {
                    let count = model.logins.len().max(1);
                    if let Some(&(name, number)) = model.logins.keys().nth(nth % count) {
                        let key = model.logins.remove(&(name, number)).expect("just found");
                        let missed = model.deferred.remove(&(name, number)).unwrap_or_default();
                        prop_assert_eq!(router.logout(key, session(number)), missed);
                    }
                    continue;
                }
                Operation::Defer { nth } => {
                    if let Some(login) = model.single(nth) {
                        router.defer(model.logins[&login], session(login.1));
                        model.deferred.entry(login).or_default();
                    }
                    continue;
                }
                Operation::Undefer { nth } => {
                    if let Some(login) = model.single(nth) {
                        let missed = model.deferred.remove(&login).unwrap_or_default();
                        let key = model.logins[&login];
                        prop_assert_eq!(router.undefer(key, session(login.1)), missed);
                    }
                    continue;
                }
                Operation::Subscribe { subscriber, subject } => {
                    router.graph().subscribe(&id(subscriber), &id(subject)).expect("room");
                    if subscriber != subject {
                        model.edges.insert((subscriber, subject));
                    }
                    continue;
                }
                Operation::Unsubscribe { subscriber, subject } => {
                    router.graph().unsubscribe(&id(subscriber), &id(subject)).expect("a graph");
                    model.edges.remove(&(subscriber, subject));
                    continue;
                }
                Operation::Publish { subject } => (subject, true),
                Operation::PublishUnstored { subject } => (subject, true),
                Operation::Send { subject } => (subject, false),
            };
            let is_asked = !matches!(operation, Operation::PublishUnstored { .. });
            let is_stored = is_asked && history_bytes.is_some();
            let tally = Tally::new();
            let event = event(subject, at.to_string());
            let reach = match subscribers_too {
                true => Reach::Subscribers,
                false => Reach::Subject,
            };
            let accepted = router.deliver(event, reach, is_asked, &tally);
            let readers = model.readers(subject, subscribers_too);
            let reached = || model.logins.keys().filter(|login| readers.contains(&login.0));
            let online: BTreeSet<_> = reached().map(|login| login.0).collect();
            let deferred_too = &model.deferred;
            let is_named = |login: &&(usize, u32)| !is_stored || !deferred_too.contains_key(login);
            let named = reached().filter(is_named);
            let sessions: BTreeSet<_> = named.map(|login| session(login.1)).collect();
            let mut counted = BTreeMap::<WorkerId, u32>::new();
            for login in reached().filter(|login| !is_named(login)) {
                *counted.entry(session(login.1).worker()).or_default() += 1;
            }
            prop_assert!(accepted.position > last, "positions ascend");
            last = accepted.position;
            prop_assert_eq!(accepted.audience.subscribers, readers.len() as u64);
            prop_assert_eq!(accepted.audience.online, online.len() as u64);

            let parcels = router.mailboxes().take();
            prop_assert_eq!(tally.pending(), parcels.len() as u64);
            let (mut got, mut deferred) = (BTreeSet::new(), BTreeMap::new());
            for (worker, parcel) in &parcels {
                prop_assert_eq!(parcel.first_position, accepted.position);
                prop_assert_eq!(parcel.deliveries.len(), 1);
                let recipients = parcel.deliveries[0].recipients.as_slice();
                prop_assert!(recipients.is_sorted_by(|a, b| a < b), "ascending, each once");
                got.extend(names(*worker, recipients));
                let count = parcel.deliveries[0].deferred;
                prop_assert_eq!(parcel.sessions(), recipients.len() as u64 + u64::from(count));
                prop_assert!(parcel.sessions() > 0, "no empty delivery");
                if count > 0 {
                    deferred.insert(*worker, count);
                }
                parcel.tally.settle();
            }
            prop_assert_eq!(tally.pending(), 0);
            prop_assert_eq!(got, sessions);
            prop_assert_eq!(deferred, counted);
            for (login, missed) in &mut model.deferred {
                *missed += u64::from(is_stored && readers.contains(&login.0));
            }
        }
        let online: BTreeSet<_> = model.logins.keys().map(|login| login.0).collect();
        prop_assert_eq!(router.online(), online.len());
        for (&(name, number), &key) in &model.logins {
            prop_assert_eq!(router.sessions(&id(name)).contains(&session(number)), true);
            let missed = model.deferred.get(&(name, number)).copied().unwrap_or_default();
            prop_assert_eq!(router.logout(key, session(number)), missed);
        }
        prop_assert!(router.is_without_sessions());
    }
}

// Subscribers are read from the graph in slices of 4,096.
#[test]
fn ten_thousand_subscribers_are_all_reached_and_each_once() {
    for count in [4_095, 4_096, 4_097, 8_192, 10_000] {
        let router = router(usize::MAX);
        for number in 0..count {
            let subscriber = Id::from(1_000 + number);
            router.graph().subscribe(&subscriber, &id(6)).expect("room");
            router.login(&subscriber, session(number)).expect("room");
        }
        let tally = Tally::new();
        let accepted = router.publish(event(6, "to all".into()), &tally);
        assert_eq!(accepted.audience.subscribers, u64::from(count) + 1);
        assert_eq!(accepted.audience.online, u64::from(count));
        let mut reached = BTreeSet::new();
        for (worker, parcel) in router.mailboxes().take() {
            for delivery in &parcel.deliveries {
                reached.extend(names(worker, delivery.recipients.as_slice()));
            }
        }
        assert_eq!(reached, (0..count).map(session).collect());
    }
}

#[test]
fn deliveries_refused_by_a_full_mailbox_are_counted_as_shed() {
    let router = router(1);
    for number in 0..6 {
        router.login(&id(6), session(number)).expect("room");
    }
    let (first, second) = (Tally::new(), Tally::new());
    router.publish(event(6, "a".into()), &first);
    router.publish(event(6, "b".into()), &second);
    assert_eq!(first.pending(), 3);
    assert_eq!(second.pending(), 0);
    assert_eq!(
        second.counts(),
        Counts {
            shed: 6,
            ..Counts::default()
        }
    );
}

#[test]
fn events_about_a_subject_stand_in_one_order_in_all_mailboxes() {
    const PUBLISHERS: usize = 4;
    const EVENTS: usize = 2_000;
    let router = router(usize::MAX);
    for number in 0..30 {
        router.login(&id(6), session(number)).expect("room");
        router.login(&id(0), session(number)).expect("room");
    }
    let start = Barrier::new(PUBLISHERS);
    thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let (router, start) = (&router, &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..EVENTS {
                    let subject = if number % 2 == 0 { 6 } else { 0 };
                    router.publish(
                        event(subject, format!("{publisher}/{number}")),
                        &Tally::new(),
                    );
                }
            });
        }
    });
    let mut orders = BTreeMap::<(Id, u16), Vec<u64>>::new();
    let mut last = [0; WORKERS as usize];
    for (worker, parcel) in router.mailboxes().take() {
        assert!(
            parcel.first_position > last[usize::from(worker.0)],
            "in order of their numbers"
        );
        last[usize::from(worker.0)] = parcel.first_position;
        let subject = parcel.events[0].subject.clone();
        orders
            .entry((subject, worker.0))
            .or_default()
            .push(parcel.first_position);
    }
    for ((subject, _), order) in &orders {
        assert_eq!(order.len(), PUBLISHERS * EVENTS / 2);
        assert!(order.is_sorted_by(|a, b| a < b), "{subject}: by number");
        assert_eq!(
            *order,
            orders[&(subject.clone(), 0)],
            "{subject}: alike for all workers"
        );
    }
}

#[test]
fn a_batch_has_the_recipients_and_order_of_its_events_published_alone() {
    let router = router(usize::MAX);
    for number in 0..24 {
        let name = number as usize % NAMES.len();
        router.login(&id(name), session(number)).expect("room");
        router.graph().subscribe(&id(name), &id(6)).expect("room");
    }
    let events: Vec<_> = (0..40)
        .map(|number| event(number % NAMES.len(), number.to_string()))
        .collect();
    let received = |router: &Router<Kept>| {
        let mut received = BTreeMap::<SessionRef, Vec<Payload>>::new();
        for (worker, parcel) in router.mailboxes().take() {
            for delivery in &parcel.deliveries {
                let payload = &parcel.events[delivery.event as usize].payload;
                for name in names(worker, delivery.recipients.as_slice()) {
                    received.entry(name).or_default().push(payload.clone());
                }
            }
            parcel.tally.settle();
        }
        received
    };
    let alone: Vec<_> = events
        .iter()
        .map(|event| router.publish(event.clone(), &Tally::new()).audience)
        .collect();
    let expected = received(&router);
    let (mut batch, tally) = (Batch::default(), Tally::new());
    for _ in 0..2 {
        // A plan that is dropped leaves nothing behind.
        router.plan(&mut batch).add(events[0].clone());
        let mut planned = router.plan(&mut batch);
        for (event, audience) in events.iter().zip(&alone) {
            assert!(planned.add(event.clone()) >= audience.online);
        }
        assert_eq!(planned.len(), events.len());
        let mut together = Vec::new();
        planned.post(&tally, |audience| together.push(audience));
        assert_eq!(together, alone);
        assert_eq!(
            tally.pending(),
            u64::from(WORKERS),
            "a parcel for each worker"
        );
        assert_eq!(received(&router), expected);
        assert_eq!(tally.pending(), 0);
    }
}

// A batch looks up events for one id together, and others one by one.
#[test]
fn a_batch_counts_deferred_sessions_as_its_events_published_alone_do() {
    let limits = Limits {
        bytes: 1 << 20,
        age_seconds: None,
    };
    let router = router(usize::MAX).with_history(limits);
    router.graph().subscribe(&id(0), &id(6)).expect("room");
    for number in 0..9 {
        let key = router.login(&id(0), session(number)).expect("room");
        // All of worker 1, and one of worker 2.
        if number % 3 == 1 || number == 2 {
            router.defer(key, session(number));
        }
    }
    let (mut batch, tally) = (Batch::default(), Tally::new());
    let mut planned = router.plan(&mut batch);
    for subject in [6, 0, 1, 0, 6] {
        planned.add(event(subject, "to all".into()));
    }
    planned.add_unstored(event(0, "not stored".into()));
    planned.post(&tally, |_| {});
    let mut got = Vec::new();
    for (worker, parcel) in router.mailboxes().take() {
        for delivery in &parcel.deliveries {
            let recipients = delivery.recipients.as_slice().len();
            got.push((worker.0, delivery.event, recipients, delivery.deferred));
        }
    }
    got.sort_unstable();
    let of_worker = |worker, named, counted| {
        let stored = [0, 1, 3, 4].map(|event| (worker, event, named, counted));
        stored.into_iter().chain([(worker, 5, 3, 0)])
    };
    let expected = of_worker(0, 3, 0)
        .chain(of_worker(1, 0, 3))
        .chain(of_worker(2, 2, 1));
    assert_eq!(got, expected.collect::<Vec<_>>());
}

#[test]
fn an_unused_id_is_forgotten() {
    let router = router(usize::MAX);
    let before = router.graph().counts().dictionary_entries;
    for number in 0..1000 {
        let name = Id::parse(&format!("guest-{number}")).expect("a valid id");
        let key = router.login(&name, session(1)).expect("room");
        router.logout(key, session(1));
        let unknown = Event {
            subject: name,
            event_type: None,
            payload: Payload::text("x".into()),
        };
        assert_eq!(router.publish(unknown, &Tally::new()).audience.online, 0);
    }
    assert_eq!(router.graph().counts().dictionary_entries, before);
    assert_eq!(router.online(), 0);
}
