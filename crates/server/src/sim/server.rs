//! A whole simulated server, for simulations of other crates: its workers, each with a network of
//! its own, in one thread and in virtual time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use graph::Graph;
use presence::Millis;
use reactor::Driver as _;
use router::Recorder;
use simulated::network::Peer;

use super::parts::{Parts, assert_nothing_shared_is_left, left};
use super::station::{Station, assert_no_mail_waits, digest, turn_until_rest};
use crate::handle::Handle;
use crate::settings::LiveSettings;
use crate::settings::PresenceSettings;

/// A connection of a client. Owned by the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SimClient {
    worker: usize,
    number: usize,
}

/// A server whose workers take a turn when they are told, if they have a reason to. Owned by the
/// test.
pub struct SimServer {
    pub(super) parts: Parts,
    stations: Vec<Station>,
}

impl fmt::Debug for SimServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimServer").finish_non_exhaustive()
    }
}

impl SimServer {
    /// Makes a server over a graph. `epoch` names it in event ids. Each of its external workers is
    /// made by [`SimExternal::new`](super::SimExternal::new).
    pub fn new(
        graph: Arc<Graph>,
        epoch: &str,
        workers: u16,
        live: LiveSettings,
        history: Recorder,
        presence: Option<PresenceSettings>,
        external_workers: u16,
    ) -> Self {
        let set = |settings: &mut crate::Settings| {
            (settings.presence, settings.external_workers) = (presence, external_workers);
        };
        let parts = Parts::over(graph, epoch, workers, live, set, |router| {
            let router = router.with_recorder(history);
            match presence {
                Some(_) => router.with_moves(),
                None => router,
            }
        });
        Self {
            stations: Station::all(&parts),
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

    fn peer<T>(&self, client: SimClient, see: impl FnOnce(&mut Peer) -> T) -> T {
        let mut net = self.stations[client.worker].net.borrow_mut();
        see(&mut net.peers[client.number])
    }

    /// Returns all that a client was sent.
    pub fn sent(&self, client: SimClient) -> Vec<u8> {
        self.peer(client, |peer| peer.outbound.clone())
    }

    /// Returns how many bytes a client was sent.
    pub fn sent_bytes(&self, client: SimClient) -> usize {
        self.peer(client, |peer| peer.outbound.len())
    }

    /// Whether the server has ended a connection.
    pub fn has_ended(&self, client: SimClient) -> bool {
        self.peer(client, |peer| peer.closed || peer.worker_ended)
    }

    /// Whether a connection is logged out, and something still waits for its socket.
    pub fn is_ending(&self, client: SimClient) -> bool {
        let token = self.peer(client, |peer| peer.token);
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
        self.stations.iter().for_each(Station::make_all_room);
    }

    /// All clients end their sides.
    pub fn end_all(&mut self) {
        for station in &self.stations {
            station.net.borrow_mut().end_all();
        }
    }

    /// Lets a worker take a turn, if it has a reason to.
    pub fn turn(&mut self, worker: usize) {
        self.stations[worker].turn(&self.parts);
    }

    /// Turns of all workers until none has a reason to take one. No time passes.
    pub fn rest(&mut self) {
        turn_until_rest(self, |it| &it.stations, Self::turn);
        assert_no_mail_waits(&self.stations);
    }

    /// Time passes, for all workers alike and without a turn.
    pub fn pass(&mut self, time: Duration) {
        for station in &self.stations {
            station.net.borrow_mut().pass(time);
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
        digest(&self.stations)
    }

    /// Checks that no connection has left anything.
    ///
    /// # Panics
    ///
    /// If one has.
    pub fn assert_nothing_is_left(&self) {
        self.stations
            .iter()
            .for_each(Station::assert_nothing_is_left);
        assert_nothing_shared_is_left(&self.parts.shared, &self.parts.handle);
        let router = self.parts.handle.router();
        assert!(router.is_without_sessions(), "the directory");
    }

    /// Lets the workers look at what they have, as they sleep otherwise.
    pub fn ring(&self) {
        self.stations.iter().for_each(|it| it.mailbox.ring());
    }
}
