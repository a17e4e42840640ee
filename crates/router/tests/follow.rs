//! Laws of a router that follows a log: the positions of its events have gaps, and all else is as
//! with a router that numbers its events itself.

use std::sync::{Arc, Mutex};

use graph::{Graph, Id, Key};
use history::{Cursor, Gap, History, Limits, Missed, Reach};
use proptest::prelude::*;
use reactor::SlotKey;
use router::{
    Batch, Counts, Event, Mailboxes, Parcel, Payload, PostError, RestoredEvent, Router, SessionRef,
    Tally, WorkerId,
};

const IDS: u32 = 6;

/// Small enough that events leave during a test.
const LIMITS: Limits = Limits {
    bytes: 1 << 17,
    age_seconds: None,
};

/// Parcels of two workers.
#[derive(Default)]
struct Mail(Mutex<Vec<(WorkerId, Parcel)>>);

impl Mailboxes for Mail {
    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        self.0.lock().expect("no panic").push((worker, parcel));
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

fn router() -> Router<Mail> {
    Router::new("e", Arc::new(Graph::memory()), Mail::default()).with_history(LIMITS)
}

fn following() -> Router<Mail> {
    let router = router();
    router.follow_log(0).expect("it has no events");
    router
}

fn event(subject: u32, payload: usize) -> Event {
    Event {
        subject: Id::from(subject),
        event_type: None,
        payload: Payload::text(vec![b'x'; payload].into()),
    }
}

fn session(number: u32) -> SessionRef {
    let slot = SlotKey {
        index: number,
        generation: 0,
    };
    SessionRef::new(WorkerId(number as u16 % 2), slot)
}

/// One step of both routers.
#[derive(Debug, Clone)]
enum Step {
    Subscribe(u32, u32),
    Unsubscribe(u32, u32),
    Login(u32),
    /// Events that are posted together: subject, reach, whether stored, size. The first comes
    /// after a gap.
    Post(u64, Vec<(u32, bool, bool, usize)>),
    /// What ids missed after the n-th latest event, and other searches up to the m-th latest one.
    Search(Vec<u32>, usize, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![9 => 0..200_usize, 1 => 20_000..30_000_usize];
    let post = (0..IDS, any::<bool>(), prop::bool::weighted(0.9), size);
    let gap = prop_oneof![
        Just(1_u64),
        1..70_000_u64,
        (1..9_u64).prop_map(|entries| entries << 16),
        Just(1 << 33),
    ];
    let posts = (gap, prop::collection::vec(post, 1..5));
    prop_oneof![
        2 => (0..IDS, 0..IDS).prop_map(|(from, to)| Step::Subscribe(from, to)),
        1 => (0..IDS, 0..IDS).prop_map(|(from, to)| Step::Unsubscribe(from, to)),
        1 => (0..IDS).prop_map(Step::Login),
        6 => posts.prop_map(|(gap, events)| Step::Post(gap, events)),
        3 => (prop::collection::vec(0..IDS, 1..3), 0..30_usize, 0..5_usize, 0..9_usize)
            .prop_map(|(ids, after, last, count)| Step::Search(ids, after, last, count)),
    ]
}

/// Both routers, and the position of each event in the log.
struct Both {
    dense: Router<Mail>,
    gapped: Router<Mail>,
    positions: Vec<u64>,
}

impl Both {
    fn each(&self) -> [&Router<Mail>; 2] {
        [&self.dense, &self.gapped]
    }

    fn post(&mut self, gap: u64, events: &[(u32, bool, bool, usize)]) {
        let reach = |is_sent| match is_sent {
            true => Reach::Subject,
            false => Reach::Subscribers,
        };
        let first = self.positions.last().expect("it begins with 0") + gap;
        // The end of an entry before this one.
        self.gapped.advance_head(first - 1);
        self.positions.extend(first..first + events.len() as u64);
        let (mut batch, mut audiences) = (Batch::default(), Vec::new());
        let mut planned = self.dense.plan(&mut batch);
        for &(subject, is_sent, is_stored, size) in events {
            planned.add_for(event(subject, size), reach(is_sent), is_stored);
        }
        let tally = Tally::new();
        planned.post(&tally, |audience| audiences.push(audience));
        let mut planned = self.gapped.plan(&mut batch);
        for &(subject, is_sent, is_stored, size) in events {
            planned.add_for(event(subject, size), reach(is_sent), is_stored);
        }
        let mut others = audiences.iter();
        let posted = planned.post_at(first, |audience, tally| {
            assert_eq!(Some(&audience), others.next());
            assert_eq!(tally.is_some(), audience.online > 0);
        });
        assert_eq!((posted, others.next()), (Ok(()), None));
        self.compare_mail();
    }

    /// Both have posted the same events to the same sessions, in the same order.
    fn compare_mail(&self) {
        let [dense, gapped] = self.each().map(|router| {
            let mail = std::mem::take(&mut *router.mailboxes().0.lock().expect("no panic"));
            let mut all = Vec::new();
            for (worker, parcel) in mail {
                for delivery in &parcel.deliveries {
                    let position = parcel.first_position + u64::from(delivery.event);
                    all.push((worker, position, delivery.recipients.clone()));
                }
            }
            all
        });
        let moved = dense.into_iter().map(|(worker, number, recipients)| {
            (worker, self.positions[number as usize], recipients)
        });
        assert_eq!(moved.collect::<Vec<_>>(), gapped);
    }

    fn search(&self, ids: &[u32], after: usize, last: usize, count: usize) {
        let latest = self.positions.len() - 1;
        let (after, last) = (latest.saturating_sub(after), latest.saturating_sub(last));
        let keys: Vec<Key> = ids.iter().map(|&id| Key::from_cursor(id)).collect();
        let [dense, gapped] = self.each().map(|router| {
            let is_dense = !router.follows_log();
            let place = |number: usize| match is_dense {
                true => number as u64,
                false => self.positions[number],
            };
            let numbers = |found: &[Missed]| -> Vec<u64> {
                let number = |position| self.positions.binary_search(&position).expect("an event");
                let found = found.iter().map(|found| found.position);
                match is_dense {
                    true => found.collect(),
                    false => found.map(|position| number(position) as u64).collect(),
                }
            };
            let (after, last) = (place(after), place(last));
            let mut found = Vec::new();
            let more = router.missed(&keys, after, last, count, &mut found);
            let missed = (more, numbers(&found));
            router.latest(&keys, after, last, count, &mut found);
            let latest = numbers(&found);
            let more = router.rewind(&keys, after, last, 2, count, &mut found);
            let rewound = (more, numbers(&found));
            router.retain_concerning(&keys, after, &mut found);
            let retained = numbers(&found);
            let recorder = router.recorder().expect("it has a history");
            let gap = |at| recorder.read(|history| history.gap("e", Cursor::complete("e", at)));
            let events = recorder.read(History::events);
            let gaps = (
                gap(after),
                gap(last),
                gap(place(self.positions.len() - 1) + 1),
            );
            (missed, latest, rewound, retained, gaps, events)
        });
        assert_eq!(dense, gapped);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 128 } else { 1024 }))]
    #[test]
    fn positions_with_gaps_change_nothing_but_the_positions(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut both = Both { dense: router(), gapped: following(), positions: vec![0] };
        for step in steps {
            match step {
                Step::Subscribe(from, to) => both.each().map(|router| {
                    router.graph().subscribe(&Id::from(from), &Id::from(to)).expect("room")
                }).iter().for_each(|_| ()),
                Step::Unsubscribe(from, to) => both.each().map(|router| {
                    router.graph().unsubscribe(&Id::from(from), &Id::from(to)).expect("room")
                }).iter().for_each(|_| ()),
                Step::Login(id) => both.each().map(|router| {
                    router.login(&Id::from(id), session(id)).expect("room")
                }).iter().for_each(|_| ()),
                Step::Post(gap, events) => both.post(gap, &events),
                Step::Search(ids, after, last, count) => both.search(&ids, after, last, count),
            }
        }
        both.search(&[0, 1, 2, 3, 4, 5], 1000, 0, 100);
    }
}

#[test]
fn a_router_that_follows_a_log_posts_nothing_by_itself_and_says_so() {
    let router = following();
    router.login(&Id::from(1), session(1)).expect("room");
    router
        .graph()
        .subscribe(&Id::from(1), &Id::from(2))
        .expect("room");
    for subject in [1, 2] {
        let tally = Tally::new();
        let accepted = router.publish(event(subject, 5), &tally);
        assert_eq!((accepted.position, accepted.audience.online), (0, 1));
        let shed = Counts {
            shed: 1,
            ..Counts::default()
        };
        assert_eq!(
            (tally.counts(), tally.unstored(), tally.pending()),
            (shed, 1, 0)
        );
    }
    assert!(router.mailboxes().0.lock().expect("no panic").is_empty());
    assert_eq!(
        router.recorder().map(|all| all.read(History::events)),
        Some(0)
    );
    assert_eq!(router.head(), Some(0));
}

#[test]
fn a_position_is_posted_once_and_only_by_a_router_that_follows_a_log() {
    let post = |router: &Router<Mail>, first| {
        let mut batch = Batch::default();
        let mut planned = router.plan(&mut batch);
        planned.add(event(1, 5));
        planned.post_at(first, |_, _| ())
    };
    assert_eq!(post(&router(), 1), Err(PostError::Local));
    let router = following();
    assert_eq!(post(&router, 1 << 16), Ok(()));
    let head = 1 << 16;
    for first in [1, head] {
        let repeated = PostError::Repeated { first, head };
        assert_eq!(post(&router, first), Err(repeated));
    }
    assert_eq!(
        router.recorder().map(|all| all.read(History::events)),
        Some(1)
    );
}

#[test]
fn a_history_that_is_filled_from_a_log_begins_where_the_log_was_read_from() {
    let router = router();
    let (start, place) = ((7 << 16) | 0xffff, 9 << 16);
    router.follow_log(start).expect("it has no events");
    let refilled = RestoredEvent {
        position: place,
        subject: Id::from(1),
        reach: Reach::Subscribers,
        tag: 1,
        seconds: 0,
        event_type: "",
        payload: b"old",
    };
    router.refill(refilled);
    router.advance_head(place | 0xffff);
    let gap = |position| {
        let cursor = Cursor::complete("e", position);
        let recorder = router.recorder().expect("it has a history");
        recorder.read(|history| history.gap("e", cursor))
    };
    assert_eq!(
        gap(start - 1),
        Some(Gap::Expired),
        "before the first entry read"
    );
    assert_eq!([start, place, place | 0xffff].map(gap), [None; 3]);
    assert_eq!(router.head(), Some(place | 0xffff));
    let mut missed = Vec::new();
    let own = [Key::from_cursor(1)];
    router.missed(&own, start, u64::MAX, 9, &mut missed);
    assert_eq!(missed.len(), 1);
    router.missed(&own, place, u64::MAX, 9, &mut missed);
    assert!(missed.is_empty());
    assert!(router.follow_log(1).is_err(), "it has events");
}
