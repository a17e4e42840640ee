//! Random cuts and returns of clients, checked against a model of what each of them is owed.
//!
//! A client that is cut has read a part of what it was sent. It returns with the last id that it
//! has. Mailboxes are full now and then: what they refuse is owed like all else, since the history
//! has it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use history::Limits;
use router::{Batch, Tally};
use simulated::{Dice, with_seed};

use super::readers::{Edges, Posted, Reader, STREAMS};
use super::world::{World, event};
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

const NAMES: [&str; 5] = ["1", "2", "rj", "bob", "2147483648"];

/// Seconds after which an event leaves the history.
const AGE_SECONDS: u32 = 10;

struct Client {
    reader: Reader,
    /// Number of its connection.
    number: Option<usize>,
}

struct Model {
    world: World,
    dice: Dice,
    clients: Vec<Client>,
    edges: Edges,
    published: Vec<Posted>,
    count: u64,
    seconds: u32,
}

impl Model {
    fn new(kind: ListenerKind, seed: u64) -> Self {
        let settings = LiveSettings {
            backlog_bytes: 400,
            // A session with this policy is not closed for being owed too much.
            slow: [SlowPolicy::CatchUp, SlowPolicy::Close][seed as usize % 2],
            heartbeat: Duration::from_secs(1),
            ..LiveSettings::default()
        };
        let limits = Limits {
            bytes: 1 << 20,
            age_seconds: Some(AGE_SECONDS),
        };
        let mut dice = Dice::new(seed);
        let clients = (0..8).map(|_| Client {
            reader: Reader::new(
                (0..1 + dice.roll(2)).map(|_| name(&mut dice)).collect(),
                &STREAMS,
                &mut dice,
            ),
            number: None,
        });
        let clients = clients.collect();
        Self {
            world: World::with_history(kind, settings, limits),
            dice,
            clients,
            edges: Edges::new(),
            published: Vec::new(),
            count: 0,
            seconds: 0,
        }
    }

    fn head(&self) -> u64 {
        let head = self.world.handle.router().head();
        head.expect("there is a history")
    }

    fn step(&mut self) {
        match self.dice.roll(24) {
            0 => self.subscribe(),
            1 => self.unsubscribe(),
            2 => self.race(),
            3 => self.tick(),
            4 => self.kick(),
            5..=6 => self.publish_within_turn(),
            _ => self.step_in_race(),
        }
        self.notice_closed();
    }

    /// A step that changes no subscription.
    fn step_in_race(&mut self) {
        match self.dice.roll(16) {
            0..=2 => self.connect(),
            3..=7 => self.publish(),
            8..=9 => self.cut(),
            10..=11 => self.make_room(),
            12 => self.world.pass(Duration::from_millis(300)),
            _ => self.world.turn(),
        }
        self.notice_closed();
    }

    fn connect(&mut self) {
        let nth = self.dice.roll(self.clients.len());
        let is_slow = self.dice.roll(3) == 0;
        self.connect_client(nth, is_slow);
    }

    fn connect_client(&mut self, nth: usize, is_slow: bool) {
        if self.clients[nth].number.is_some() {
            return;
        }
        let request = self.clients[nth].reader.connect();
        let room = if is_slow {
            600 + self.dice.roll(300)
        } else {
            usize::MAX
        };
        let bite = match self.dice.roll(2) {
            0 => usize::MAX,
            _ => 100 + self.dice.roll(600),
        };
        let number = self
            .world
            .connect_with(request.as_bytes(), room, usize::MAX);
        self.clients[nth].number = Some(number);
        self.world.turn();
        self.world.net.borrow_mut().peers[number].bite = bite;
    }

    /// Publishes an event in two parts, between which clients log in and are cut.
    fn race(&mut self) {
        let router = self.world.handle.router_shared();
        let mut batch = Batch::default();
        let mut planned = router.plan(&mut batch);
        let subject = name(&mut self.dice);
        self.count += 1;
        planned.add(event(subject, &format!("{};", self.count)));
        let readers = self.readers(subject);
        let fresh: Vec<_> = self.without_cursor();
        let steps = self.dice.roll(6);
        (0..steps).for_each(|_| self.step_in_race());
        let tally = Tally::new();
        let position = match self.is_full() {
            true => self.world.while_full(|_| planned.post(&tally, |_| ())),
            false => planned.post(&tally, |_| ()),
        };
        // Who logged in meanwhile without a cursor asked for what comes after its login.
        for client in fresh {
            if self.clients[client].number.is_some() {
                self.clients[client].reader.excuse(position);
            }
        }
        self.published.push(Posted {
            position,
            subject,
            readers,
            is_sent: false,
            is_stored: true,
        });
    }

    /// Returns whether the worker's mailbox is full at the moment.
    fn is_full(&mut self) -> bool {
        self.dice.roll(8) == 0
    }

    fn without_cursor(&self) -> Vec<usize> {
        let clients = self.clients.iter().enumerate();
        let fresh = clients.filter(|(_, client)| client.reader.cursor.is_none());
        fresh.map(|(nth, _)| nth).collect()
    }

    fn readers(&self, subject: &'static str) -> BTreeSet<&'static str> {
        let edges = self.edges.keys().filter(|edge| edge.1 == subject);
        edges.map(|edge| edge.0).chain([subject]).collect()
    }

    fn publish(&mut self) {
        let subject = name(&mut self.dice);
        self.count += 1;
        let text = format!("{};", self.count);
        let (is_sent, is_stored) = match self.dice.roll(8) {
            0..2 => (true, true),
            2 => (false, false),
            _ => (false, true),
        };
        let post = |world: &World| match (is_sent, is_stored) {
            (true, _) => world.send(subject, &text),
            (false, true) => world.publish(subject, &text),
            (false, false) => world.publish_unstored(subject, &text),
        };
        let (accepted, _) = match self.is_full() {
            true => self.world.while_full(post),
            false => post(&self.world),
        };
        self.published.push(Posted {
            position: accepted.position,
            subject,
            readers: match is_sent {
                true => BTreeSet::from([subject]),
                false => self.readers(subject),
            },
            is_sent,
            is_stored,
        });
    }

    /// Publishes an event while the worker is in the middle of its turn.
    fn publish_within_turn(&mut self) {
        let subject = name(&mut self.dice);
        self.count += 1;
        let event = event(subject, &format!("{};", self.count));
        let router = self.world.handle.router_shared();
        let posted = Rc::new(Cell::new(0));
        let position = Rc::clone(&posted);
        self.world.net.borrow_mut().meanwhile = Some(Box::new(move || {
            position.set(router.publish(event, &Tally::new()).position);
        }));
        let fresh = self.without_cursor();
        let readers = self.readers(subject);
        self.world.wake();
        self.world.net.borrow_mut().meanwhile = None;
        if posted.get() > 0 {
            for client in fresh {
                self.clients[client].reader.excuse(posted.get());
            }
            self.published.push(Posted {
                position: posted.get(),
                subject,
                readers,
                is_sent: false,
                is_stored: true,
            });
        }
    }

    fn subscribe(&mut self) {
        let (subscriber, subject) = (name(&mut self.dice), name(&mut self.dice));
        let head = self.head();
        if subscriber != subject {
            self.edges.entry((subscriber, subject)).or_insert(head);
        }
        self.world.subscribe(subscriber, subject);
    }

    fn unsubscribe(&mut self) {
        let (subscriber, subject) = (name(&mut self.dice), name(&mut self.dice));
        self.edges.remove(&(subscriber, subject));
        self.world.unsubscribe(subscriber, subject);
    }

    fn tick(&mut self) {
        self.seconds += self.dice.roll(6) as u32;
        self.world.handle.router().tick(self.seconds);
    }

    fn make_room(&mut self) {
        let nth = self.dice.roll(self.clients.len());
        let room = self.dice.roll(300);
        if let Some(number) = self.clients[nth].number {
            self.world.net.borrow_mut().make_room(number, room);
        }
    }

    /// The operator closes the sessions of an id.
    fn kick(&mut self) {
        let sessions = self
            .world
            .handle
            .router()
            .sessions(&super::world::id(name(&mut self.dice)));
        self.world.handle.close(&sessions);
    }

    /// A client is cut off in the middle of what it was sent.
    fn cut(&mut self) {
        let nth = self.dice.roll(self.clients.len());
        if let Some(number) = self.clients[nth].number {
            self.world.net.borrow_mut().break_off(number);
            let length = self.world.bytes(number).len();
            let read = match self.dice.roll(3) {
                0 => length,
                _ => self.dice.roll(length + 1),
            };
            self.leave(nth, read);
            self.world.turn();
        }
    }

    fn notice_closed(&mut self) {
        for nth in 0..self.clients.len() {
            if let Some(number) = self.clients[nth].number
                && (self.world.is_closed(number)
                    || self.world.net.borrow().peers[number].worker_ended)
            {
                self.world.net.borrow_mut().end(number);
                self.leave(nth, usize::MAX);
            }
        }
    }

    /// Ends a client's connection, of which it has read so many bytes.
    fn leave(&mut self, nth: usize, read: usize) {
        let client = &mut self.clients[nth];
        let Some(number) = client.number.take() else {
            return;
        };
        let bytes = self.world.bytes(number);
        let read = &bytes[..read.min(bytes.len())];
        let published = &self.published;
        let find = |position, _: &str| published.iter().find(|it| it.position == position);
        client.reader.read(read, self.world.left(), find);
        client.reader.mistake_cursor(&mut self.dice);
    }

    /// Lets every client return and read all, and checks what it has.
    fn judge(&mut self) {
        for nth in 0..self.clients.len() {
            if self.clients[nth].number.is_some() {
                let number = self.clients[nth].number.expect("it is connected");
                self.world.net.borrow_mut().break_off(number);
                self.leave(nth, usize::MAX);
                self.world.turn();
            }
        }
        for nth in 0..self.clients.len() {
            self.connect_client(nth, false);
        }
        self.settle();
        // What is under way at the return, and what comes after it.
        (0..6).for_each(|_| self.publish());
        self.settle();
        assert!(
            self.world.worker.sessions.replays.is_empty(),
            "a replay is left"
        );
        for nth in 0..self.clients.len() {
            let is_closed = self
                .world
                .is_closed(self.clients[nth].number.expect("connected"));
            assert!(!is_closed, "a client that reads all was closed");
            self.leave(nth, usize::MAX);
            let name = format!("client {nth}");
            let reader = &self.clients[nth].reader;
            reader.judge(name, &self.published, &self.edges);
        }
    }

    fn settle(&mut self) {
        for _ in 0..40 {
            self.world.run_until_idle();
            self.world.pass(Duration::from_millis(100));
        }
    }

    fn end(&mut self) {
        self.world.net.borrow_mut().end_all();
        self.world.pass(Duration::from_secs(20));
        self.world.wake();
        self.world.assert_empty();
    }
}

fn name(dice: &mut Dice) -> &'static str {
    NAMES[dice.roll(NAMES.len())]
}

fn check(kind: ListenerKind, seed: u64) -> [u64; 4] {
    let mut model = Model::new(kind, seed);
    for _ in 0..250 {
        model.step();
    }
    model.judge();
    model.end();
    let metrics = [
        Metric::EventsReplayed,
        Metric::ResumesExpired,
        Metric::CatchUps,
        Metric::Gaps,
    ];
    metrics.map(|metric| model.world.metric(metric))
}

fn check_all(kind: ListenerKind, seeds: std::ops::Range<u64>) {
    let mut sums = [0; 4];
    for seed in seeds {
        let counts = with_seed(seed, || check(kind, seed));
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }
    assert!(
        sums.iter().all(|&sum| sum > 100),
        "{sums:?}: the test tests nothing"
    );
}

#[test]
fn who_returns_gets_what_it_is_owed_or_a_reset() {
    check_all(ListenerKind::Plain, 0..300);
}

#[test]
fn who_returns_over_tls_gets_what_it_is_owed_or_a_reset() {
    check_all(ListenerKind::Tls, 0..60);
}
