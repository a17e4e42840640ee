//! Policies for slow readers, against a model: a client whose socket takes what the dice say, and
//! what it gets, what is dropped, and what it is told about that.

use std::collections::BTreeSet;

use simulated::Dice;

use super::quiet;
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

const SUBJECTS: [&str; 7] = ["1", "2", "3", "4", "5", "6", "7"];

/// What a client got, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Got {
    /// The event of this number.
    Event(usize),
    /// A notice that so many are missing.
    Gap(usize),
}

/// Client that follows all subjects, and the events published while it was there.
struct Reader {
    world: World,
    dice: Dice,
    client: usize,
    /// The subject of each event.
    published: Vec<&'static str>,
    /// Whether the worker's mailbox is full now and then.
    is_overloaded: bool,
    /// Events that the mailbox refused.
    refused: usize,
}

impl Reader {
    fn new(kind: ListenerKind, path: &str, policy: SlowPolicy, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut world = World::new(
            kind,
            LiveSettings {
                backlog_bytes: 300 + dice.roll(1500),
                // Often less than what one backlog may have.
                buffer_bytes: [usize::MAX, 600 + dice.roll(1000)][dice.roll(2)],
                slow: policy,
                ..quiet()
            },
        );
        let client = world.connect(&format!("{path}/{}", SUBJECTS.join(",")));
        world.run_until_idle();
        Self {
            world,
            dice,
            client,
            published: Vec::new(),
            is_overloaded: false,
            refused: 0,
        }
    }

    fn step(&mut self) {
        let client = self.client;
        match self.dice.roll(12) {
            0 => self.world.net.borrow_mut().peers[client].room = self.dice.roll(200),
            1 => {
                let room = self.dice.roll(400);
                self.world.net.borrow_mut().make_room(client, room);
            }
            2 => self.world.net.borrow_mut().peers[client].bite = 1 + self.dice.roll(300),
            3..=4 => self.world.turn(),
            _ => self.publish(),
        }
    }

    fn publish(&mut self) {
        let subject = SUBJECTS[self.dice.roll(SUBJECTS.len())];
        let length = match self.dice.roll(12) {
            // Too large for some backlogs, and for others beside what waits.
            0 => self.dice.roll(2500),
            _ => self.dice.roll(60),
        };
        let number = self.published.len();
        let text = format!("{number} {};", "x".repeat(length));
        if self.is_overloaded && self.dice.roll(5) == 0 {
            self.world.while_full(|world| world.publish(subject, &text));
            self.refused += 1;
        } else {
            self.world.publish(subject, &text);
        }
        self.published.push(subject);
        if self.dice.roll(2) == 0 {
            self.world.turn();
        }
    }

    /// Lets the client read everything, and returns what it got.
    fn drain(&mut self) -> Vec<Got> {
        let client = self.client;
        self.world.run_until_idle();
        self.world.net.borrow_mut().peers[client].bite = usize::MAX;
        self.world.net.borrow_mut().make_room(client, usize::MAX);
        self.world.run_until_idle();
        assert_eq!(self.world.metric(Metric::BacklogSessions), 0, "drained");
        assert_eq!(self.world.metric(Metric::BacklogBytes), 0);
        let backlogs = self.world.worker.table.backlogs();
        assert_eq!(backlogs.memory().bytes(), 0, "memory of frames");
        let payloads = self.world.payloads(client);
        let got = payloads.iter().map(|payload| {
            let number = |text: &str| text.parse().expect("a number");
            match payload.strip_prefix("{\"lost\":") {
                Some(rest) => Got::Gap(number(rest.trim_end_matches('}'))),
                None => Got::Event(number(payload.split(' ').next().expect("a word"))),
            }
        });
        got.collect()
    }
}

fn run(kind: ListenerKind, path: &str, policy: SlowPolicy, seed: u64) -> (Reader, Vec<Got>) {
    run_reader(Reader::new(kind, path, policy, seed), seed)
}

fn run_reader(mut reader: Reader, seed: u64) -> (Reader, Vec<Got>) {
    for _ in 0..200 {
        reader.step();
    }
    let got = reader.drain();
    assert!(
        !reader.world.is_closed(reader.client),
        "seed {seed}: a reader whose policy drops events is not closed for owing too much"
    );
    (reader, got)
}

fn events(got: &[Got]) -> Vec<usize> {
    let event = |got: &Got| match got {
        Got::Event(number) => Some(*number),
        Got::Gap(_) => None,
    };
    got.iter().filter_map(event).collect()
}

/// Returns how many events are told to be missing, after checking that what the client got is in
/// order, and that the notices before each event tell of as many as the model `needs` for the
/// events that are missing before it.
fn check_notices(got: &[Got], seed: u64, needs: impl Fn(&[usize]) -> usize) -> usize {
    let (mut told, mut missing, mut next) = (0, Vec::new(), 0);
    for got in got {
        match *got {
            Got::Gap(lost) => {
                assert!(lost > 0, "seed {seed}: a notice about nothing");
                told += lost;
            }
            Got::Event(number) => {
                assert!(number >= next, "seed {seed}: {number} comes after {next}");
                missing.extend(next..number);
                assert!(
                    needs(&missing) <= told,
                    "seed {seed}: lost in silence before {number}"
                );
                next = number + 1;
            }
        }
    }
    told
}

fn dropped_oldest(reader: &Reader) -> usize {
    reader.world.metric(Metric::DroppedOldest) as usize
}

fn each_seed(plain: u64, tls: u64, check: impl Fn(ListenerKind, u64)) {
    (0..plain).for_each(|seed| check(ListenerKind::Plain, seed));
    (0..tls).for_each(|seed| check(ListenerKind::Tls, seed));
}

#[test]
fn a_reader_whose_oldest_events_are_dropped_gets_the_rest_in_order_and_the_number_of_them() {
    let mut dropped = 0;
    each_seed(200, 40, |kind, seed| {
        let (reader, got) = run(kind, "/events", SlowPolicy::DropOldest, seed);
        let told = check_notices(&got, seed, <[usize]>::len);
        assert_eq!(told, dropped_oldest(&reader), "seed {seed}");
        assert_eq!(
            events(&got).len() + told,
            reader.published.len(),
            "seed {seed}"
        );
        assert_eq!(reader.world.metric(Metric::DroppedLatest), 0);
    });
    let (reader, _) = run(ListenerKind::Plain, "/events", SlowPolicy::DropOldest, 1);
    dropped += dropped_oldest(&reader);
    assert!(dropped > 0, "the test drops nothing");
}

#[test]
fn a_reader_of_the_latest_events_misses_only_those_that_later_ones_of_their_subject_replaced() {
    each_seed(200, 40, |kind, seed| {
        let (reader, got) = run(kind, "/events", SlowPolicy::Latest, seed);
        let arrived = events(&got);
        let is_replaced = |number: usize| {
            let subject = reader.published[number];
            let mut later = arrived.iter().filter(|&&later| later > number);
            later.any(|&later| reader.published[later] == subject)
        };
        // A replaced event may be gone with the one that replaced it.
        let told = check_notices(&got, seed, |missing| {
            let lost = missing.iter().filter(|&&number| !is_replaced(number));
            let subjects: BTreeSet<_> = lost.map(|&number| reader.published[number]).collect();
            subjects.len()
        });
        assert_eq!(told, dropped_oldest(&reader), "seed {seed}");
        let replaced = reader.world.metric(Metric::DroppedLatest) as usize;
        let missing = reader.published.len() - arrived.len();
        assert_eq!(missing, told + replaced, "seed {seed}");
    });
}

#[test]
fn a_reader_is_told_of_each_event_that_a_full_mailbox_refused_before_any_later_one() {
    let mut refused = 0;
    each_seed(200, 40, |kind, seed| {
        let mut reader = Reader::new(kind, "/events", SlowPolicy::DropOldest, seed);
        reader.is_overloaded = true;
        let (reader, got) = run_reader(reader, seed);
        let told = check_notices(&got, seed, <[usize]>::len);
        assert_eq!(
            told,
            dropped_oldest(&reader) + reader.refused,
            "seed {seed}"
        );
        assert_eq!(
            events(&got).len() + told,
            reader.published.len(),
            "seed {seed}"
        );
        let shed = reader.world.metric(Metric::DeliveriesShed) as usize;
        assert!(shed >= reader.refused, "seed {seed}: they count as shed");
    });
    let mut reader = Reader::new(ListenerKind::Plain, "/events", SlowPolicy::DropOldest, 1);
    reader.is_overloaded = true;
    refused += run_reader(reader, 1).0.refused;
    assert!(refused > 10, "the test loses nothing");
}

#[test]
fn the_wire_of_2008_has_no_notices_and_drops_whole_events_as_well() {
    each_seed(50, 10, |kind, seed| {
        let (reader, got) = run(kind, "/test", SlowPolicy::DropOldest, seed);
        let arrived = events(&got);
        assert!(arrived.is_sorted(), "seed {seed}");
        let missing = reader.published.len() - arrived.len();
        assert_eq!(missing, dropped_oldest(&reader), "seed {seed}");
        assert_eq!(reader.world.metric(Metric::Gaps), 0);
    });
}

#[test]
fn a_client_chooses_its_policy_and_the_others_keep_that_of_the_server() {
    let mut world = World::new(
        ListenerKind::Plain,
        LiveSettings {
            backlog_bytes: 100,
            ..quiet()
        },
    );
    let own = world.connect("/events/1?slow=drop-oldest");
    let default = world.connect("/events/1");
    let unknown = world.connect("/events/1?slow=never");
    world.run_until_idle();
    assert_eq!(world.status(unknown), 400);
    for client in [own, default] {
        world.net.borrow_mut().peers[client].room = 0;
    }
    for _ in 0..10 {
        world.publish("1", "an event of some length");
        world.turn();
    }
    assert!(world.is_closed(default) && !world.is_closed(own));
}

#[test]
fn a_session_that_is_ended_is_told_what_it_lost_before_its_stream_ends() {
    let mut world = World::new(
        ListenerKind::Plain,
        LiveSettings {
            backlog_bytes: 300,
            slow: SlowPolicy::DropOldest,
            ..quiet()
        },
    );
    let client = world.connect("/events/1");
    world.run_until_idle();
    world.net.borrow_mut().peers[client].room = 10;
    for number in 0..9 {
        world.publish("1", &format!("{number} of some length"));
        world.turn();
    }
    let sessions = world
        .handle
        .router()
        .sessions(&super::super::world::id("1"));
    world.handle.close(&sessions);
    world.run_until_idle();
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
    // The end needs room too, for which another event was dropped.
    let rest = ["0 of some length", "{\"lost\":7}", "8 of some length"];
    assert_eq!(world.payloads(client), rest);
    assert!(
        world.text(client).ends_with("0\r\n\r\n"),
        "nothing follows the end"
    );
}
