//! The steps of a life, and what the model knows after each of them.

mod judgement;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reactor::{Driver as _, Handler as _, Mailbox, Tick};
use router::{Accepted, Tally};

use crate::listener::ListenerKind;
use crate::mail::Mail;
use crate::settings::LiveSettings;
use crate::sim::laws::Dice;
use crate::sim::net::{Pipe, Shared as Net, SimDriver};
use crate::sim::parts::{Parts, Turns, worker};
use crate::sim::world::{World, event, id};
use crate::slow_policy::SlowPolicy;
use crate::worker::Worker;

const WORKERS: u16 = 3;

const NAMES: [&str; 5] = ["1", "2", "rj", "bob", "2147483648"];

/// What strangers say: nothing, a part of a head, what is no HTTP, what nobody may ask for.
const RUBBISH: [&str; 5] = [
    "",
    "GET /events/1 HTTP/1.1\r\nHost: loc",
    "\x16\x03\x01\x02\0\x01\0",
    "POST /events/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc",
    "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
];

/// A worker and its network.
struct Station {
    net: Net,
    worker: Worker<SimDriver>,
    mailbox: Arc<Mailbox<Mail>>,
    turns: Turns,
    /// Descriptors that others have taken.
    taken: usize,
}

struct Client {
    station: usize,
    /// Number of its connection there.
    number: usize,
    ids: BTreeSet<&'static str>,
    /// It reads everything at once, and stays.
    is_faithful: bool,
    state: State,
    /// Events that are for it, by subject, in their order.
    owed: BTreeMap<&'static str, Vec<Owed>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its worker does not know it yet.
    Coming,
    Online,
    /// It will be gone when its worker has taken a turn.
    Leaving,
    Gone,
}

struct Owed {
    published: Rc<Published>,
    /// It came while this was published, and may have it or not.
    is_optional: bool,
}

struct Published {
    text: String,
    tally: Arc<Tally>,
    /// Sessions that it was for, if that is known.
    sessions: Option<usize>,
    /// Worker whose mailbox was full.
    refused_by: Option<usize>,
}

pub(super) struct Life {
    parts: Parts,
    stations: Vec<Station>,
    clients: Vec<Client>,
    edges: BTreeSet<(&'static str, &'static str)>,
    published: Vec<Rc<Published>>,
    /// How many of them had been published when the workers were last at rest.
    looked_at: usize,
    /// What has happened, for whoever reads of a failure.
    trace: Trace,
}

pub(super) type Trace = Rc<RefCell<Vec<String>>>;

impl Life {
    pub(super) fn new(seed: u64, trace: Trace) -> Self {
        let live = LiveSettings {
            backlog_bytes: 400,
            slow: [
                SlowPolicy::Close,
                SlowPolicy::DropOldest,
                SlowPolicy::Latest,
            ][seed as usize % 3],
            ..LiveSettings::default()
        };
        let parts = Parts::new(WORKERS, live, |_| {}, |router| router);
        let station = |nth: u16| {
            let mailbox = Arc::clone(&parts.mailboxes[usize::from(nth)]);
            let kinds = [ListenerKind::Plain];
            let worker = worker(nth, &parts.shared, &parts.handle, &mailbox, &kinds);
            Station {
                net: Net::clone(&worker.table.driver.0),
                turns: Turns::new(nth, &worker),
                worker,
                mailbox,
                taken: 0,
            }
        };
        Self {
            stations: (0..WORKERS).map(station).collect(),
            parts,
            clients: Vec::new(),
            edges: BTreeSet::new(),
            published: Vec::new(),
            looked_at: 0,
            trace,
        }
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.trace.borrow_mut().push(what());
    }

    pub(super) fn step(&mut self, dice: &mut Dice) {
        let nth = dice.roll(self.stations.len());
        match dice.roll(24) {
            0..=3 => self.connect(nth, dice),
            4..=8 => self.publish(nth, dice),
            9 => self.subscribe(dice),
            10 => self.unsubscribe(dice),
            11 => self.leave(dice),
            12 => self.make_room(dice),
            13 => self.kick(dice),
            14 => self.pass(dice),
            15 => self.crowd(nth, dice),
            16 => self.take_descriptors(nth),
            17 => self.give_descriptors(nth),
            18 => self.refuse_watches(nth, dice),
            19 => self.set_clock(nth, dice),
            20 => self.publish_within_turn(nth, dice),
            21 => self.rest(),
            _ => self.turn(nth),
        }
    }

    fn connect(&mut self, station: usize, dice: &mut Dice) {
        let ids: BTreeSet<_> = (0..1 + dice.roll(2)).map(|_| name(dice)).collect();
        let path = ["/events/", "/stream/", "/test/"][dice.roll(3)];
        let version = dice.roll(2);
        let list = ids.iter().copied().collect::<Vec<_>>().join(",");
        let request = format!("GET {path}{list} HTTP/1.{version}\r\nHost: localhost\r\n\r\n");
        let is_faithful = dice.roll(2) == 0;
        // Room for the head at least, so that its arrival shows the login.
        let (room, bite) = match (is_faithful, dice.roll(2)) {
            (true, _) => (usize::MAX, usize::MAX),
            (false, 0) => (600 + dice.roll(300), usize::MAX),
            (false, _) => (usize::MAX, 1 + dice.roll(300)),
        };
        let net = &self.stations[station].net;
        let number = net.borrow_mut().connect(request.as_bytes(), room, bite);
        self.note(|| format!("{path}{list} comes to {station}, faithful: {is_faithful}"));
        self.clients.push(Client {
            station,
            number,
            ids,
            is_faithful,
            state: State::Coming,
            owed: BTreeMap::new(),
        });
    }

    /// Sessions that are for one of these ids: those of its clients that a worker knows.
    fn sessions_of<'a>(
        &'a mut self,
        readers: &'a BTreeSet<&'static str>,
    ) -> impl Iterator<Item = &'a mut Client> {
        self.clients.iter_mut().filter(|client| {
            let is_known = matches!(client.state, State::Online | State::Leaving);
            is_known && !client.ids.is_disjoint(readers)
        })
    }

    fn readers(&self, subject: &'static str) -> BTreeSet<&'static str> {
        let edges = self.edges.iter().filter(|edge| edge.1 == subject);
        edges.map(|edge| edge.0).chain([subject]).collect()
    }

    fn publish(&mut self, nth: usize, dice: &mut Dice) {
        let subject = name(dice);
        let text = format!("{}:{subject};", self.published.len());
        let (is_sent, is_full) = (dice.roll(4) == 0, dice.roll(6) == 0);
        let readers = match is_sent {
            true => BTreeSet::from([subject]),
            false => self.readers(subject),
        };
        let now = self.stations[0].worker.table.driver.elapsed().as_nanos();
        self.parts.clock.store(now as u64, Ordering::Relaxed);
        let (router, tally) = (self.parts.handle.router(), Tally::new());
        let publish = || match is_sent {
            true => router.send(event(subject, &text), &tally),
            false => router.publish(event(subject, &text), &tally),
        };
        let accepted = match is_full {
            true => World::fill(&self.stations[nth].mailbox, publish),
            false => publish(),
        };
        let full = if is_full {
            "a full mailbox at"
        } else {
            "beside"
        };
        self.note(|| format!("{text} is for {readers:?}, {full} {nth}: {accepted:?}"));
        let sessions: Vec<_> = self.sessions_of(&readers).collect();
        let online: BTreeSet<_> = sessions.iter().flat_map(|it| &it.ids).collect();
        let online = online
            .into_iter()
            .filter(|it| readers.contains(*it))
            .count();
        let published = Rc::new(Published {
            text,
            tally,
            sessions: Some(sessions.len()),
            refused_by: is_full.then_some(nth),
        });
        for client in sessions {
            client.owe(subject, &published, false);
        }
        assert_eq!(accepted.audience.subscribers, readers.len() as u64);
        assert_eq!(accepted.audience.online, online as u64, "of {readers:?}");
        self.published.push(published);
    }

    /// Publishes while a worker is in the middle of its turn. Who comes or goes in that turn may
    /// have the event or not.
    fn publish_within_turn(&mut self, nth: usize, dice: &mut Dice) {
        let subject = name(dice);
        let text = format!("{}:{subject};", self.published.len());
        let (router, tally) = (self.parts.handle.router_shared(), Tally::new());
        let (event, given) = (event(subject, &text), Arc::clone(&tally));
        let accepted = Rc::new(RefCell::new(None::<Accepted>));
        let answer = Rc::clone(&accepted);
        self.stations[nth].net.borrow_mut().meanwhile = Some(Box::new(move || {
            *answer.borrow_mut() = Some(router.publish(event, &given));
        }));
        let readers = self.readers(subject);
        let before: Vec<_> = self.clients.iter().map(|it| it.state).collect();
        self.stations[nth].mailbox.ring();
        self.turn(nth);
        self.stations[nth].net.borrow_mut().meanwhile = None;
        let Some(accepted) = accepted.take() else {
            return;
        };
        self.note(|| format!("{text} came in a turn of {nth}, for {readers:?}: {accepted:?}"));
        let published = Rc::new(Published {
            text,
            tally,
            sessions: None,
            refused_by: None,
        });
        for (client, before) in self.clients.iter_mut().zip(before) {
            let is_known = [State::Online, State::Leaving].contains(&before);
            let came = client.state == State::Online && client.station == nth;
            if (is_known || came) && !client.ids.is_disjoint(&readers) {
                client.owe(subject, &published, !is_known);
            }
        }
        self.published.push(published);
    }

    fn subscribe(&mut self, dice: &mut Dice) {
        let (subscriber, subject) = (name(dice), name(dice));
        if subscriber != subject {
            self.edges.insert((subscriber, subject));
        }
        self.note(|| format!("{subscriber} subscribes to {subject}"));
        let graph = self.parts.handle.graph();
        graph
            .subscribe(&id(subscriber), &id(subject))
            .expect("room in the graph");
    }

    fn unsubscribe(&mut self, dice: &mut Dice) {
        let edge = (name(dice), name(dice));
        self.note(|| format!("{} unsubscribes from {}", edge.0, edge.1));
        self.take_back(edge);
    }

    fn take_back(&mut self, edge: (&'static str, &'static str)) {
        self.edges.remove(&edge);
        let graph = self.parts.handle.graph();
        graph
            .unsubscribe(&id(edge.0), &id(edge.1))
            .expect("the graph answers");
    }

    /// A client ends its side, or breaks off.
    fn leave(&mut self, dice: &mut Dice) {
        let (nth, ends) = (dice.roll(self.clients.len().max(1)), dice.roll(2) == 0);
        let Some(client) = self.clients.get_mut(nth) else {
            return;
        };
        if client.state != State::Online {
            return;
        }
        client.is_faithful = false;
        client.state = State::Leaving;
        let mut net = self.stations[client.station].net.borrow_mut();
        match ends {
            true => net.end(client.number),
            false => net.break_off(client.number),
        }
        drop(net);
        self.note(|| format!("client {nth} leaves, at its end: {ends}"));
    }

    fn make_room(&mut self, dice: &mut Dice) {
        let nth = dice.roll(self.clients.len().max(1));
        let room = dice.roll(400);
        if let Some(client) = self.clients.get(nth) {
            let mut net = self.stations[client.station].net.borrow_mut();
            net.make_room(client.number, room);
            drop(net);
            self.note(|| format!("client {nth} has read {room} bytes"));
        }
    }

    /// The operator closes all sessions of an id.
    fn kick(&mut self, dice: &mut Dice) {
        if dice.roll(4) > 0 {
            return;
        }
        let name = name(dice);
        let sessions = self.parts.handle.router().sessions(&id(name));
        self.parts.handle.close(&sessions);
        self.note(|| format!("{name} is closed"));
        for client in self.sessions_of(&BTreeSet::from([name])) {
            client.is_faithful = false;
            client.state = State::Leaving;
        }
    }

    /// Time passes, for some of the workers without a turn.
    fn pass(&mut self, dice: &mut Dice) {
        let tenths = 1 + dice.roll(30);
        self.note(|| format!("{tenths} tenths of a second pass"));
        for _ in 0..tenths {
            self.pass_a_tenth();
            for nth in 0..self.stations.len() {
                if dice.roll(3) > 0 {
                    self.turn(nth);
                }
            }
        }
    }

    fn pass_a_tenth(&self) {
        for station in &self.stations {
            let now = station.net.borrow().now;
            station.net.borrow_mut().now = Tick(now.0 + 100);
        }
    }

    /// Strangers come, and some of them break off at once.
    fn crowd(&self, nth: usize, dice: &mut Dice) {
        let count = dice.roll(40);
        self.note(|| format!("{count} strangers come to {nth}"));
        let mut net = self.stations[nth].net.borrow_mut();
        for _ in 0..count {
            let said = RUBBISH[dice.roll(RUBBISH.len())];
            let stranger = net.connect(said.as_bytes(), dice.roll(1000), usize::MAX);
            if dice.roll(3) == 0 {
                net.break_off(stranger);
            }
        }
    }

    fn take_descriptors(&mut self, nth: usize) {
        self.note(|| format!("{nth} has no descriptors"));
        let station = &mut self.stations[nth];
        station.taken += std::mem::take(&mut station.net.borrow_mut().descriptors);
    }

    fn give_descriptors(&mut self, nth: usize) {
        self.note(|| format!("{nth} has descriptors again"));
        let station = &mut self.stations[nth];
        station.net.borrow_mut().descriptors += std::mem::take(&mut station.taken);
    }

    fn refuse_watches(&self, nth: usize, dice: &mut Dice) {
        let count = dice.roll(3);
        self.note(|| format!("the poller of {nth} refuses {count} sockets"));
        self.stations[nth].net.borrow_mut().refused_watches = count;
    }

    /// The clock on the wall is set, by up to ten years.
    fn set_clock(&self, nth: usize, dice: &mut Dice) {
        let seconds = [-315_360_000, -3600, 3600, 315_360_000][dice.roll(4)];
        self.note(|| format!("the clock of {nth} is set {seconds} s forward"));
        self.stations[nth].net.borrow_mut().set_forward = seconds;
    }

    fn turn(&mut self, nth: usize) {
        let station = &mut self.stations[nth];
        if station.worker.is_over() {
            return;
        }
        let refused = station.net.borrow().refused_watches;
        let budget = &self.parts.shared.budget;
        station
            .turns
            .take(&mut station.worker, &station.mailbox, budget);
        let net = station.net.borrow();
        let has_refused = net.refused_watches != refused;
        for client in self.clients.iter_mut().filter(|it| it.station == nth) {
            let pipe = &net.pipes[client.number];
            let is_refused = has_refused && client.state == State::Coming && pipe.closed;
            client.is_faithful &= !is_refused;
            client.state = client.state.behind_a_turn(pipe);
            let is_gone = client.state == State::Gone;
            assert!(
                !(is_gone && client.is_faithful),
                "a client that kept up was closed"
            );
        }
    }

    fn has_work(&self) -> bool {
        let working = self.stations.iter().filter(|it| !it.worker.is_over());
        working.into_iter().any(|it| {
            it.worker.has_work() || it.net.borrow().has_signals() || !it.mailbox.is_asleep()
        })
    }

    /// Turns of all workers until none has a reason to take one. No time passes.
    fn turn_until_rest(&mut self) {
        let mut turns = 0;
        while turns < 2 || self.has_work() {
            (0..self.stations.len()).for_each(|nth| self.turn(nth));
            turns += 1;
            assert!(turns < 10_000, "the workers do not come to rest");
        }
    }

    /// Lets the workers come to rest: no mail waits at one that sleeps, and what a receipt calls
    /// written is there, before anybody reads more.
    pub(super) fn rest(&mut self) {
        self.note(|| "the workers come to rest".to_owned());
        self.turn_until_rest();
        for (nth, station) in self.stations.iter().enumerate() {
            assert_eq!(station.mailbox.waiting(), 0, "mail at {nth}, which sleeps");
        }
        for published in &self.published[self.looked_at..] {
            let Published { text, tally, .. } = &**published;
            assert_eq!(tally.pending(), 0, "the receipt of {text}");
            let has = |client: &&Client| {
                let net = self.stations[client.station].net.borrow();
                let sent = &net.pipes[client.number].outbound;
                sent.windows(text.len()).any(|it| it == text.as_bytes())
            };
            let have = self.clients.iter().filter(has).count() as u64;
            let written = tally.counts().written;
            assert!(
                written <= have,
                "{text}: {written} written, and {have} have it"
            );
        }
        self.looked_at = self.published.len();
    }

    /// Lets time pass for all workers alike.
    pub(super) fn run(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.turn_until_rest();
            self.pass_a_tenth();
        }
    }

    /// No fault happens any more, and whoever has not read reads.
    pub(super) fn heal(&mut self) {
        for nth in 0..self.stations.len() {
            self.give_descriptors(nth);
            let mut net = self.stations[nth].net.borrow_mut();
            net.refused_watches = 0;
            for number in 0..net.pipes.len() {
                net.make_room(number, usize::MAX);
                net.pipes[number].bite = usize::MAX;
            }
        }
    }
}

impl Client {
    fn owe(&mut self, subject: &'static str, published: &Rc<Published>, is_optional: bool) {
        self.owed.entry(subject).or_default().push(Owed {
            published: Rc::clone(published),
            is_optional,
        });
    }
}

impl State {
    fn behind_a_turn(self, pipe: &Pipe) -> Self {
        match self {
            _ if pipe.closed || pipe.server_ended => Self::Gone,
            Self::Coming if !pipe.outbound.is_empty() => Self::Online,
            Self::Leaving => Self::Gone,
            other => other,
        }
    }
}

fn name(dice: &mut Dice) -> &'static str {
    NAMES[dice.roll(NAMES.len())]
}
