//! The steps of a life, and what the model knows after each of them.

/// Events and subscriptions.
mod events;
/// What goes wrong.
mod faults;
/// Clients that come back with cursors.
mod returns;
/// Turns of the workers, and time.
mod turns;
/// What must be so in the end.
mod judgement;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use history::Limits;
use reactor::Tick;
use router::Tally;
use simulated::network::Peer;
use simulated::{Dice, Trace};

use crate::settings::LiveSettings;
use crate::sim::parts::Parts;
use crate::sim::readers::{ClientState as State, Edges, Posted, Reader, STATUS_BYTES};
use crate::sim::station::{Station, digest};
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

const WORKERS: u16 = 3;

const NAMES: [&str; 5] = ["1", "2", "rj", "bob", "2147483648"];

/// Seconds after which an event leaves the history.
const AGE_SECONDS: u32 = 10;

/// How long a request may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that a server may have, in lives with a limit.
const CONNECTIONS_MAX: usize = 30;

/// A connection of somebody who asks for a stream.
struct Client {
    station: usize,
    /// Number of its connection there.
    number: usize,
    ids: BTreeSet<&'static str>,
    /// It reads everything at once, and stays.
    is_faithful: bool,
    state: State,
    /// The rest of its request, which it has not said yet.
    unsaid: Vec<u8>,
    /// Its request does not arrive at once.
    is_slow_to_speak: bool,
    /// Time when it came.
    came: Tick,
    /// Events that are for it, by subject, in their order.
    owed: BTreeMap<&'static str, Vec<Owed>>,
    /// Who comes back when it has ended, in a life with a history.
    reader: Option<usize>,
    /// It asks for one answer, and is online for a while.
    polls: bool,
}

struct Owed {
    published: Rc<Published>,
    /// It came or went while this was published, and may have it or not.
    is_optional: bool,
}

struct Published {
    text: String,
    posted: Posted,
    tally: Arc<Tally>,
    /// Sessions that it was for, if that is known.
    sessions: Option<usize>,
    /// Worker whose mailbox was full.
    refused_by: Option<usize>,
}

pub(super) struct Life {
    parts: Parts,
    stations: Vec<Station>,
    /// Descriptors of each worker that others have taken.
    taken: [usize; WORKERS as usize],
    clients: Vec<Client>,
    /// Who comes back, in a life with a history.
    readers: Vec<Reader>,
    has_history: bool,
    edges: Edges,
    published: Vec<Rc<Published>>,
    /// How many of them had been published when the workers were last at rest.
    looked_at: usize,
    /// Ids that were online when the router was last asked who came and went.
    online: BTreeSet<&'static str>,
    /// Time of the history, in seconds.
    seconds: u32,
    /// The server takes [`CONNECTIONS_MAX`].
    is_limited: bool,
    is_draining: bool,
    /// What has happened, for whoever reads of a failure.
    trace: Trace,
}

impl Life {
    pub(super) fn new(seed: u64, trace: Trace) -> Self {
        // Without a history, sessions catch up from nowhere: they are closed.
        let (has_history, slow) = [
            (false, SlowPolicy::Close),
            (false, SlowPolicy::DropOldest),
            (true, SlowPolicy::CatchUp),
            (false, SlowPolicy::Latest),
            (true, SlowPolicy::Close),
        ][seed as usize % 5];
        let is_limited = seed.is_multiple_of(7);
        let live = LiveSettings {
            backlog_bytes: 400,
            slow,
            max_connections: if is_limited {
                CONNECTIONS_MAX
            } else {
                usize::MAX
            },
            head_timeout: HEAD_TIMEOUT,
            // Long enough for all to end by themselves.
            drain_timeout: Duration::from_mins(1),
            ..LiveSettings::default()
        };
        let limits = Limits {
            bytes: 1 << 20,
            age_seconds: Some(AGE_SECONDS),
        };
        let parts = Parts::new(
            WORKERS,
            live,
            |_| {},
            |router| {
                let router = router.with_moves();
                match has_history {
                    true => router.with_history(limits),
                    false => router,
                }
            },
        );
        Self {
            stations: Station::all(&parts),
            taken: [0; WORKERS as usize],
            parts,
            clients: Vec::new(),
            readers: Vec::new(),
            has_history,
            edges: Edges::new(),
            published: Vec::new(),
            looked_at: 0,
            online: BTreeSet::new(),
            seconds: 0,
            is_limited,
            is_draining: false,
            trace,
        }
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.trace.borrow_mut().push(what());
    }

    /// Returns how often the workers have counted something.
    pub(super) fn count(&self, metric: Metric) -> u64 {
        self.parts.handle.stats().total(metric)
    }

    /// Returns a number for all that the workers have asked of their drivers so far.
    pub(super) fn digest(&self) -> u64 {
        digest(&self.stations)
    }

    pub(super) fn step(&mut self, dice: &mut Dice) {
        let nth = dice.roll(self.stations.len());
        match dice.roll(28) {
            0..=3 => self.connect(nth, dice),
            4..=8 => self.publish(nth, dice),
            9 => self.subscribe(dice),
            10 => self.unsubscribe(dice),
            11..=12 => self.leave(dice),
            13 => self.make_room(dice),
            14 => self.kick(dice),
            15 => self.pass(dice),
            16 => self.crowd(nth, dice),
            17 => self.take_descriptors(nth),
            18 => self.give_descriptors(nth),
            19 => self.refuse_watches(nth, dice),
            20 => self.set_clock(nth, dice),
            21 => self.publish_within_turn(nth, dice),
            22 => self.rest(),
            23 => self.say_on(dice),
            24 => self.forget(dice),
            25 => self.drain(dice),
            _ => self.turn(nth),
        }
    }

    /// Somebody asks for a stream. In a life with a history, it is often somebody who had one.
    fn connect(&mut self, station: usize, dice: &mut Dice) {
        if self.is_draining {
            // Nobody listens any more.
            return;
        }
        let is_faithful = dice.roll(2) == 0;
        // Room for the beginning of the answer at least, which shows what became of the request.
        let (room, bite) = match (is_faithful, dice.roll(2)) {
            (true, _) => (usize::MAX, usize::MAX),
            (false, 0) => (600 + dice.roll(300), usize::MAX),
            (false, _) => (usize::MAX, STATUS_BYTES + dice.roll(300)),
        };
        match self.has_history {
            true => {
                let reader = self.choose_reader(dice);
                let request = self.readers[reader].connect();
                let ids = self.readers[reader].ids.clone();
                self.arrive(station, &request, ids, room, bite);
                let client = self.clients.last_mut().expect("it has come");
                client.is_of(reader, &self.readers[reader]);
            }
            false => {
                let ids = names(dice);
                let request = request(&ids, dice);
                self.arrive(station, &request, ids, room, bite);
            }
        }
        let client = self.clients.last_mut().expect("it has come");
        client.is_faithful = is_faithful && !client.polls;
        self.speak_slowly(dice);
    }

    /// A client comes, sends a request and reads what it has room for.
    fn arrive(
        &mut self,
        station: usize,
        request: &str,
        ids: BTreeSet<&'static str>,
        room: usize,
        bite: usize,
    ) {
        let line = request.lines().next().unwrap_or_default();
        self.note(|| format!("client {} comes to {station}: {line}", self.clients.len()));
        let mut net = self.stations[station].net.borrow_mut();
        let number = net.connect(request.as_bytes(), room, bite);
        let came = net.now;
        drop(net);
        self.clients.push(Client {
            station,
            number,
            ids,
            is_faithful: false,
            state: State::Coming,
            unsaid: Vec::new(),
            is_slow_to_speak: false,
            came,
            owed: BTreeMap::new(),
            reader: None,
            polls: false,
        });
    }

    /// The request of the last client arrives in small parts, or not all of it, now and then.
    fn speak_slowly(&mut self, dice: &mut Dice) {
        let client = self.clients.last_mut().expect("it has come");
        let mut net = self.stations[client.station].net.borrow_mut();
        let peer = &mut net.peers[client.number];
        match dice.roll(5) {
            0 => {
                let said = dice.roll(peer.inbound.len());
                client.unsaid = peer.inbound.split_off(said).into();
            }
            1 => peer.sip = Some(1 + dice.roll(60)),
            _ => return,
        }
        client.is_slow_to_speak = true;
        let (left, sip) = (client.unsaid.len(), peer.sip);
        drop(net);
        self.note(|| format!("{left} bytes of its request are missing; {sip:?} come at a time"));
    }

    /// A client that has not said its whole request goes on.
    fn say_on(&mut self, dice: &mut Dice) {
        let waiting = |(_, client): &(usize, &mut Client)| !client.unsaid.is_empty();
        let mut waiting: Vec<_> = self
            .clients
            .iter_mut()
            .enumerate()
            .filter(waiting)
            .collect();
        if waiting.is_empty() {
            return;
        }
        let chosen = dice.roll(waiting.len());
        let (nth, client) = &mut waiting[chosen];
        let count = 1 + dice.roll(client.unsaid.len());
        let mut net = self.stations[client.station].net.borrow_mut();
        net.say(client.number, &client.unsaid[..count]);
        client.unsaid.drain(..count);
        let nth = *nth;
        drop(net);
        self.note(|| format!("client {nth} says {count} bytes more"));
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
}

impl Client {
    fn is_of(&mut self, number: usize, reader: &Reader) {
        (self.reader, self.polls) = (Some(number), reader.polls());
    }

    fn owe(&mut self, subject: &'static str, published: &Rc<Published>, is_optional: bool) {
        self.owed.entry(subject).or_default().push(Owed {
            published: Rc::clone(published),
            is_optional,
        });
    }
}

impl State {
    fn behind_a_turn(self, peer: &Peer) -> Self {
        match self {
            _ if peer.closed || peer.worker_ended => Self::Gone,
            Self::Coming if !peer.outbound.is_empty() => Self::Online,
            Self::Leaving => Self::Gone,
            other => other,
        }
    }

    /// A client that polls is online while its worker knows it.
    fn behind_a_turn_with_poll(self, peer: &Peer, is_known: bool) -> Self {
        match self {
            _ if peer.closed || peer.worker_ended => Self::Gone,
            Self::Leaving => Self::Gone,
            _ if is_known => Self::Online,
            Self::Coming => Self::Coming,
            Self::Online | Self::Gone => Self::Gone,
        }
    }
}

fn name(dice: &mut Dice) -> &'static str {
    NAMES[dice.roll(NAMES.len())]
}

/// Ids of a client.
fn names(dice: &mut Dice) -> BTreeSet<&'static str> {
    (0..1 + dice.roll(2)).map(|_| name(dice)).collect()
}

/// The request of somebody without a past.
fn request(ids: &BTreeSet<&'static str>, dice: &mut Dice) -> String {
    let path = ["/events/", "/stream/", "/test/"][dice.roll(3)];
    let version = dice.roll(2);
    let list = ids.iter().copied().collect::<Vec<_>>().join(",");
    format!("GET {path}{list} HTTP/1.{version}\r\nHost: localhost\r\n\r\n")
}
