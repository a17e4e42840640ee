//! External workers of other crates, each with a simulated network of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use graph::Id;
use reactor::{Handler, Mailbox};
use router::{Router, WorkerId};
use simulated::network::{Peer, SharedNetwork as Net, network};
use simulated::{SimDriver, Turns};

use super::parts::{DESCRIPTORS, Parts, has_reason};
use super::server::SimServer;
use crate::external::ExternalWorker;
use crate::handle::Handle;
use crate::mail::Mail;
use crate::post::Post;
use crate::settings::PresenceSettings;
use crate::settings::{LiveSettings, Settings};

/// An external worker, which takes a turn when it is told, if it has a reason to. Owned by the
/// test.
pub struct SimExternal<H> {
    /// What acts in its turns.
    pub handler: H,
    net: Net,
    mailbox: Arc<Mailbox<Mail>>,
    turns: Turns,
}

impl<H> fmt::Debug for SimExternal<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimExternal").finish_non_exhaustive()
    }
}

impl<H: Handler<Driver = SimDriver>> SimExternal<H> {
    /// Makes the last worker of a server, which `make` gives its actions.
    ///
    /// # Panics
    ///
    /// If the server has no external workers.
    pub fn new(server: &SimServer, make: impl FnOnce(Arc<ExternalWorker>, SimDriver) -> H) -> Self {
        let (parts, last) = (&server.parts, server.parts.mailboxes.len() - 1);
        assert!(parts.shared.settings.external_workers > 0);
        let mailbox = Arc::clone(&parts.mailboxes[last]);
        let worker = ExternalWorker::of(parts, last);
        let net = network(DESCRIPTORS);
        let driver = SimDriver(Net::clone(&net));
        let mut handler = make(Arc::new(worker), driver);
        Self {
            turns: Turns::new(&mut handler),
            handler,
            net,
            mailbox,
        }
    }

    /// A peer connects. Its socket takes `room` bytes in all, and `bite` at a time. Returns its
    /// number.
    pub fn connect(&mut self, room: usize, bite: usize) -> usize {
        self.net.borrow_mut().connect(&[], room, bite)
    }

    fn peer<T>(&self, peer: usize, see: impl FnOnce(&mut Peer) -> T) -> T {
        see(&mut self.net.borrow_mut().peers[peer])
    }

    /// A peer says something.
    pub fn say(&mut self, peer: usize, bytes: &[u8]) {
        self.net.borrow_mut().say(peer, bytes);
    }

    /// Returns what a peer was sent behind its first `known` bytes.
    pub fn sent(&self, peer: usize, known: usize) -> Vec<u8> {
        self.peer(peer, |peer| peer.outbound[known..].to_vec())
    }

    /// Whether the worker has closed a connection.
    pub fn has_closed(&self, peer: usize) -> bool {
        self.peer(peer, |peer| peer.closed)
    }

    /// A peer has read so many bytes: its socket takes as many more.
    pub fn make_room(&mut self, peer: usize, bytes: usize) {
        self.net.borrow_mut().make_room(peer, bytes);
    }

    /// A peer ends its side.
    pub fn end(&mut self, peer: usize) {
        self.net.borrow_mut().end(peer);
    }

    /// The connection of a peer breaks.
    pub fn break_off(&mut self, peer: usize) {
        self.net.borrow_mut().break_off(peer);
    }

    /// Lets the worker take a turn, if it has a reason to.
    pub fn turn(&mut self) {
        self.turns.take(&mut self.handler, &self.mailbox);
    }

    /// Turns until there is no reason to take one. No time passes.
    pub fn rest(&mut self) {
        let mut turns = 0;
        while turns < 2 || has_reason(&self.handler, &self.net, &self.mailbox) {
            self.turn();
            turns += 1;
            assert!(turns < 10_000, "the worker does not come to rest");
        }
        assert_eq!(self.mailbox.waiting(), 0, "mail at a worker that sleeps");
    }

    /// Time passes, without a turn.
    pub fn pass(&mut self, time: Duration) {
        self.net.borrow_mut().pass(time);
    }

    /// Returns a number for all that the worker has asked of its network so far.
    pub fn digest(&self) -> u64 {
        self.net.borrow().digest
    }

    /// Checks that no connection has left anything.
    ///
    /// # Panics
    ///
    /// If one has.
    pub fn assert_nothing_is_left(&self) {
        assert_eq!(self.mailbox.outstanding(), 0, "weight in the mailbox");
        let net = self.net.borrow();
        assert!(net.peers.iter().all(|it| it.closed), "sockets");
        assert_eq!(net.descriptors, DESCRIPTORS, "descriptors");
    }
}

impl ExternalWorker {
    fn of(parts: &Parts, nth: usize) -> Self {
        Self::new(WorkerId(nth as u16), Arc::clone(&parts.shared))
    }

    /// Makes a server over a graph in memory, all of whose workers are external: the test acts for
    /// them. The epoch of its events is `e`.
    pub fn simulated(
        workers: u16,
        live: LiveSettings,
        presence: Option<PresenceSettings>,
        prepare: impl FnOnce(Router<Post>) -> Router<Post>,
    ) -> (Handle, Vec<Self>) {
        let set = |settings: &mut Settings| {
            (settings.presence, settings.external_workers) = (presence, workers);
        };
        let parts = Parts::new(0, live, set, prepare);
        let all = (0..usize::from(workers)).map(|nth| Self::of(&parts, nth));
        (parts.handle.clone(), all.collect())
    }

    /// Notes that a session of an id was closed because its client read too slowly.
    pub fn note_slow(&self, id: Id) {
        self.stats().slow(id);
    }
}
