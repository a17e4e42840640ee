//! A whole simulated server, for simulations of other crates: its workers, each with a network of
//! its own, in one thread and in virtual time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use graph::Graph;
use presence::Millis;
use reactor::{Driver as _, Handler as _, Mailbox, Tick};
use router::Recorder;

use super::net::{Pipe, Shared as Net, SimDriver};
use super::parts::{
    Parts, Turns, assert_nothing_is_left, assert_nothing_shared_is_left, left, worker,
};
use crate::listener::ListenerKind;
use crate::mail::{Handle, Mail};
use crate::presence::PresenceSettings;
use crate::settings::LiveSettings;
use crate::worker::Worker;

/// A connection of a client. Owned by the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimClient {
    worker: usize,
    number: usize,
}

/// A worker and its network.
struct Station {
    net: Net,
    worker: Worker<SimDriver>,
    mailbox: Arc<Mailbox<Mail>>,
    turns: Turns,
    /// The worker has ended, and its mail was shed.
    is_over: bool,
}

/// A server whose workers take a turn when they are told, if they have a reason to. Owned by the
/// test.
pub struct SimServer {
    parts: Parts,
    stations: Vec<Station>,
}

impl fmt::Debug for SimServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimServer").finish_non_exhaustive()
    }
}

impl SimServer {
    /// Makes a server over a graph. `epoch` names it in event ids.
    pub fn new(
        graph: Arc<Graph>,
        epoch: &str,
        workers: u16,
        live: LiveSettings,
        history: Recorder,
        presence: Option<PresenceSettings>,
    ) -> Self {
        let set = |settings: &mut crate::Settings| settings.presence = presence;
        let parts = Parts::over(graph, epoch, workers, live, set, |router| {
            let router = router.with_recorder(history);
            match presence {
                Some(_) => router.with_moves(),
                None => router,
            }
        });
        let station = |nth: u16| {
            let mailbox = Arc::clone(&parts.mailboxes[usize::from(nth)]);
            let kinds = [ListenerKind::Plain];
            let worker = worker(nth, &parts.shared, &parts.handle, &mailbox, &kinds);
            Station {
                net: Net::clone(&worker.table.driver.0),
                turns: Turns::new(nth, &worker),
                worker,
                mailbox,
                is_over: false,
            }
        };
        Self {
            stations: (0..workers).map(station).collect(),
            parts,
        }
    }

    /// The server, as other threads see it.
    pub fn handle(&self) -> &Handle {
        &self.parts.handle
    }

    /// A client connects to a worker and sends `request`. Its socket takes `room` bytes in all, and
    /// `bite` at a time.
    pub fn connect(
        &mut self,
        worker: usize,
        request: &[u8],
        room: usize,
        bite: usize,
    ) -> SimClient {
        let mut net = self.stations[worker].net.borrow_mut();
        SimClient {
            worker,
            number: net.connect(request, room, bite),
        }
    }

    fn pipe<T>(&self, client: SimClient, see: impl FnOnce(&mut Pipe) -> T) -> T {
        let mut net = self.stations[client.worker].net.borrow_mut();
        see(&mut net.pipes[client.number])
    }

    /// Returns all that a client was sent.
    pub fn sent(&self, client: SimClient) -> Vec<u8> {
        self.pipe(client, |pipe| pipe.outbound.clone())
    }

    /// Returns how many bytes a client was sent.
    pub fn sent_bytes(&self, client: SimClient) -> usize {
        self.pipe(client, |pipe| pipe.outbound.len())
    }

    /// Whether the server has ended a connection.
    pub fn has_ended(&self, client: SimClient) -> bool {
        self.pipe(client, |pipe| pipe.closed || pipe.server_ended)
    }

    /// Whether a connection is logged out, and something still waits for its socket.
    pub fn is_ending(&self, client: SimClient) -> bool {
        let token = self.pipe(client, |pipe| pipe.token);
        self.stations[client.worker].worker.is_ending(token)
    }

    /// A client ends its side.
    pub fn end(&mut self, client: SimClient) {
        let mut net = self.stations[client.worker].net.borrow_mut();
        net.end(client.number);
    }

    /// The connection of a client breaks.
    pub fn break_off(&mut self, client: SimClient) {
        let mut net = self.stations[client.worker].net.borrow_mut();
        net.break_off(client.number);
    }

    /// A client has read so many bytes: its socket takes as many more.
    pub fn make_room(&mut self, client: SimClient, bytes: usize) {
        let mut net = self.stations[client.worker].net.borrow_mut();
        net.make_room(client.number, bytes);
    }

    /// All sockets take everything from now on.
    pub fn make_all_room(&mut self) {
        for station in &self.stations {
            let mut net = station.net.borrow_mut();
            for number in 0..net.pipes.len() {
                net.make_room(number, usize::MAX);
                net.pipes[number].bite = usize::MAX;
            }
        }
    }

    /// All clients end their sides.
    pub fn end_all(&mut self) {
        for station in &self.stations {
            station.net.borrow_mut().end_all();
        }
    }

    /// Lets a worker take a turn, if it has a reason to.
    pub fn turn(&mut self, worker: usize) {
        let station = &mut self.stations[worker];
        if station.worker.is_over() {
            if !std::mem::replace(&mut station.is_over, true) {
                station.worker.conclude();
            }
            return;
        }
        let budget = &self.parts.shared.budget;
        station
            .turns
            .take(&mut station.worker, &station.mailbox, budget);
    }

    /// Whether a worker has a reason to take a turn.
    fn has_work(&self) -> bool {
        let mut working = self.stations.iter().filter(|it| !it.is_over);
        working.any(|it| {
            it.worker.is_over()
                || it.worker.has_work()
                || it.net.borrow().has_signals()
                || !it.mailbox.is_asleep()
        })
    }

    /// Turns of all workers until none has a reason to take one. No time passes.
    pub fn rest(&mut self) {
        let mut turns = 0;
        while turns < 2 || self.has_work() {
            (0..self.stations.len()).for_each(|nth| self.turn(nth));
            turns += 1;
            assert!(turns < 10_000, "the workers do not come to rest");
        }
        for (nth, station) in self.stations.iter().enumerate() {
            assert_eq!(station.mailbox.waiting(), 0, "mail at {nth}, which sleeps");
        }
    }

    /// Time passes, for all workers alike and without a turn.
    pub fn pass(&mut self, time: Duration) {
        for station in &self.stations {
            let now = station.net.borrow().now;
            station.net.borrow_mut().now = Tick(now.0 + time.as_millis() as u64);
        }
        let now = self.stations[0].worker.table.driver.elapsed().as_nanos();
        self.parts.clock.store(now as u64, Ordering::Relaxed);
    }

    /// Lets the presence thread do what it does ten times a second.
    pub fn tick_presence(&self) {
        let now = self.stations[0].net.borrow().now;
        self.parts.handle.tick_presence(Millis(now.0));
    }

    /// Returns the position up to which events have left the history.
    pub fn left(&self) -> u64 {
        left(&self.parts.handle)
    }

    /// Returns a number for all that the workers have asked of their networks so far.
    pub fn digest(&self) -> u64 {
        let digests = self.stations.iter().map(|it| it.net.borrow().digest);
        digests.fold(0, |all, it| all.rotate_left(21) ^ it)
    }

    /// Checks that no connection has left anything.
    ///
    /// # Panics
    ///
    /// If one has.
    pub fn assert_nothing_is_left(&self) {
        for station in &self.stations {
            assert_nothing_is_left(&station.worker, &station.mailbox);
            assert!(
                station.net.borrow().pipes.iter().all(|it| it.closed),
                "sockets"
            );
        }
        assert_nothing_shared_is_left(&self.parts.shared, &self.parts.handle);
        let router = self.parts.handle.router();
        assert!(router.is_without_sessions(), "the directory");
    }

    /// Lets the workers look at what they have, as they sleep otherwise.
    pub fn ring(&self) {
        self.stations.iter().for_each(|it| it.mailbox.ring());
    }
}
