//! Random behaviour of a dozen clients, checked against a simple model: the expected recipients are
//! recorded at the time of publishing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reactor::{MetricSet, Tick};
use simulated::{Dice, with_seed};

use super::world::{World, id};
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;
use crate::stats::Metric;

const NAMES: [&str; 5] = ["1", "2", "rj", "bob", "2147483648"];

/// Returns a name that the dice choose.
const fn name(dice: &mut Dice) -> &'static str {
    NAMES[dice.roll(NAMES.len())]
}

struct Client {
    number: usize,
    ids: BTreeSet<&'static str>,
    /// Payloads that the client should get, with their subjects.
    owed: Vec<(&'static str, String)>,
    /// Whether the client reads everything and has not ended, so that it must get all payloads.
    faithful: bool,
    /// Whether the operator has logged the client out. Its connection may stay for a moment.
    kicked: bool,
    gone: bool,
}

struct Model {
    world: World,
    dice: Dice,
    clients: Vec<Client>,
    edges: BTreeSet<(&'static str, &'static str)>,
    published: u64,
    recipients: u64,
}

impl Model {
    fn new(kind: ListenerKind, seed: u64) -> Self {
        let settings = LiveSettings {
            backlog_bytes: 400,
            ..LiveSettings::default()
        };
        Self {
            world: World::new(kind, settings),
            dice: Dice::new(seed),
            clients: Vec::new(),
            edges: BTreeSet::new(),
            published: 0,
            recipients: 0,
        }
    }

    fn step(&mut self) {
        match self.dice.roll(20) {
            0..=3 => self.connect(),
            4..=9 => self.publish(),
            10 => self.subscribe(),
            11 => self.unsubscribe(),
            12 => self.leave(),
            13..=14 => self.make_room(),
            15 => self.kick(),
            16 => self.world.pass(Duration::from_millis(300)),
            _ => self.world.turn(),
        }
        self.notice_closed();
    }

    fn connect(&mut self) {
        let ids: BTreeSet<_> = (0..1 + self.dice.roll(2))
            .map(|_| name(&mut self.dice))
            .collect();
        let path = ["/events/", "/stream/", "/test/"][self.dice.roll(3)];
        let version = self.dice.roll(2);
        let list = ids.iter().copied().collect::<Vec<_>>().join(",");
        let request = format!("GET {path}{list} HTTP/1.{version}\r\nHost: localhost\r\n\r\n");
        let faithful = self.dice.roll(3) > 0;
        // Room for the head at least, so that its arrival shows the login.
        let room = if faithful {
            usize::MAX
        } else {
            600 + self.dice.roll(300)
        };
        let bite = if self.dice.roll(2) == 0 {
            usize::MAX
        } else {
            100 + self.dice.roll(600)
        };
        // The login must not wait until the session tickets of TLS are taken.
        let at_first = if self.world.is_tls() {
            usize::MAX
        } else {
            bite
        };
        let number = self.world.connect_with(request.as_bytes(), room, at_first);
        self.clients.push(Client {
            number,
            ids,
            owed: Vec::new(),
            faithful,
            kicked: false,
            gone: false,
        });
        // The login happens in the turn that accepts.
        self.world.turn();
        self.world.net.borrow_mut().peers[number].bite = bite;
    }

    fn publish(&mut self) {
        let subject = name(&mut self.dice);
        self.published += 1;
        let text = format!("{subject}:{};", self.published);
        let to_subscribers = self.dice.roll(3) > 0;
        let (accepted, _) = if to_subscribers {
            self.world.publish(subject, &text)
        } else {
            self.world.send(subject, &text)
        };
        let mut readers = BTreeSet::from([subject]);
        if to_subscribers {
            readers.extend(
                self.edges
                    .iter()
                    .filter(|edge| edge.1 == subject)
                    .map(|edge| edge.0),
            );
        }
        assert_eq!(
            accepted.audience.subscribers,
            readers.len() as u64,
            "subscribers of {subject}"
        );
        let mut online = BTreeSet::new();
        for client in self
            .clients
            .iter_mut()
            .filter(|client| !client.gone && !client.kicked)
        {
            let concerned: Vec<_> = client.ids.intersection(&readers).copied().collect();
            if !concerned.is_empty() {
                self.recipients += 1;
                client.owed.push((subject, text.clone()));
                online.extend(concerned);
            }
        }
        assert_eq!(
            accepted.audience.online,
            online.len() as u64,
            "readers of {subject} online"
        );
    }

    fn subscribe(&mut self) {
        let (subscriber, subject) = (name(&mut self.dice), name(&mut self.dice));
        if subscriber != subject {
            self.edges.insert((subscriber, subject));
        }
        self.world.subscribe(subscriber, subject);
    }

    fn unsubscribe(&mut self) {
        let (subscriber, subject) = (name(&mut self.dice), name(&mut self.dice));
        self.edges.remove(&(subscriber, subject));
        self.world.unsubscribe(subscriber, subject);
    }

    fn leave(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let client = self.dice.roll(self.clients.len());
        let client = &mut self.clients[client];
        client.faithful = false;
        if self.dice.roll(2) == 0 {
            self.world.net.borrow_mut().end(client.number);
        } else {
            self.world.net.borrow_mut().break_off(client.number);
        }
        // The logout happens in the turn that notices.
        self.world.turn();
    }

    /// The operator closes all sessions of an id: each stream ends behind what it was sent.
    fn kick(&mut self) {
        if self.dice.roll(4) > 0 {
            return;
        }
        let name = name(&mut self.dice);
        let sessions = self.world.handle.router().sessions(&id(name));
        self.world.handle.close(&sessions);
        for client in self
            .clients
            .iter_mut()
            .filter(|client| client.ids.contains(name))
        {
            client.faithful = false;
            client.kicked = true;
        }
        // Deliveries of the same turn come after the closing.
        self.world.turn();
    }

    fn make_room(&mut self) {
        if !self.clients.is_empty() {
            let client = self.clients[self.dice.roll(self.clients.len())].number;
            let room = self.dice.roll(300);
            self.world.net.borrow_mut().make_room(client, room);
        }
    }

    fn notice_closed(&mut self) {
        for client in &mut self.clients {
            client.gone |= self.world.is_closed(client.number);
            assert!(
                !(client.gone && client.faithful),
                "a client that kept up was closed"
            );
        }
    }

    /// Checks that everything is delivered, and that each client got its expected payloads.
    fn judge(&mut self) {
        self.world.run_until_idle();
        for client in &self.clients {
            let got = self.world.payloads(client.number);
            let order = |payloads: &mut dyn Iterator<Item = (&'static str, String)>| {
                let mut by_subject = BTreeMap::<&str, Vec<String>>::new();
                for (subject, payload) in payloads {
                    by_subject.entry(subject).or_default().push(payload);
                }
                by_subject
            };
            let name = |payload: &str| {
                let subject = payload.split_once(':').map(|(subject, _)| subject);
                NAMES
                    .into_iter()
                    .find(|name| Some(*name) == subject)
                    .expect("a payload as published")
            };
            let owed = order(&mut client.owed.iter().cloned());
            let got = order(&mut got.iter().map(|payload| (name(payload), payload.clone())));
            for (subject, got) in &got {
                let owed = owed
                    .get(subject)
                    .unwrap_or_else(|| panic!("{subject} is none of its"));
                assert!(
                    owed.starts_with(got),
                    "{subject}: owed {owed:?}, got {got:?}"
                );
            }
            if client.faithful {
                assert_eq!(got, owed, "a client that keeps up gets all");
            }
        }
        let outcomes = [
            Metric::Deliveries,
            Metric::DeliveriesQueued,
            Metric::DeliveriesShed,
        ];
        let counted: u64 = outcomes
            .iter()
            .map(|&outcome| self.world.metric(outcome))
            .sum();
        assert_eq!(
            counted, self.recipients,
            "each key is written, queued or shed"
        );
    }

    /// Checks that the worker's metrics of its own loop are consistent.
    fn audit(&self) {
        let metric = |metric| self.world.metric(metric);
        let by_events = Metric::POLLS.map(metric);
        assert_eq!(
            by_events.iter().sum::<u64>(),
            metric(Metric::Turns),
            "polls"
        );
        let least = (0..).zip(by_events).map(|(length, polls)| match length {
            0 => 0,
            _ => polls << (length - 1),
        });
        let least: u64 = least.sum();
        let signals = metric(Metric::Signals);
        assert!((least..=2 * least).contains(&signals), "{signals} events");
        let worked = metric(Metric::Busy) + metric(Metric::Waiting);
        let passed = self.world.net.borrow().now.since(Tick::default());
        assert_eq!(u128::from(worked), passed.as_nanos(), "time");
        assert_eq!(metric(Metric::Closes), metric(Metric::Accepted), "closes");
    }

    fn end(&mut self) {
        for client in &self.clients {
            self.world.net.borrow_mut().end(client.number);
        }
        self.world.pass(Duration::from_secs(20));
        self.world.wake();
        self.world.assert_empty();
        for (subscriber, subject) in std::mem::take(&mut self.edges) {
            self.world.unsubscribe(subscriber, subject);
        }
        // No id is held by a session that has gone, or by an event that was delivered.
        let graph = self.world.handle.graph();
        assert_eq!(graph.counts(), graph::Counts::default(), "ids and edges");
        self.audit();
    }
}

// Invariants 1 to 6 of the fan-out.
#[test]
fn clients_get_all_events_in_order_and_no_record_is_left() {
    (0..400).for_each(|seed| with_seed(seed, || check(ListenerKind::Plain, seed)));
}

#[test]
fn clients_get_all_events_in_order_over_tls_and_no_record_is_left() {
    (0..100).for_each(|seed| with_seed(seed, || check(ListenerKind::Tls, seed)));
}

fn check(kind: ListenerKind, seed: u64) {
    let mut model = Model::new(kind, seed);
    for _ in 0..150 {
        model.step();
    }
    model.judge();
    model.end();
}
