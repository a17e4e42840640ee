//! One worker, its listener and its network.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Mailbox, MetricSet, Tick};

use super::net::{self, Peer, Shared, SimDriver};
use crate::complaints::Complaints;
use crate::tcp::access::Access;
use crate::tcp::front::Front;
use crate::tcp::latency::Latency;
use crate::tcp::settings::{BackendAddress, ListenerSettings};
use crate::tcp::stats::{Metric, WorkerStats};
use crate::tcp::worker::{Mail, Worker};

pub(super) struct World {
    pub(super) net: Shared,
    pub(super) worker: Worker<SimDriver>,
    pub(super) mailbox: Arc<Mailbox<Mail>>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) front: Arc<Front>,
}

/// The address of a backend.
pub(super) fn backend(number: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 1, number], 80))
}

/// Settings of a listener with so many backends.
pub(super) fn settings(backends: u8) -> ListenerSettings {
    let listen = SocketAddr::from(([127, 0, 0, 1], 9000));
    let named = |number| BackendAddress {
        name: format!("b{number}"),
        address: backend(number),
    };
    ListenerSettings::new(listen, (0..backends).map(named).collect())
}

impl World {
    pub(super) fn new(settings: ListenerSettings) -> Self {
        let net = net::network(settings.backends.iter().map(|named| named.address));
        let mailbox = Arc::new(Mailbox::new(usize::MAX).expect("an eventfd"));
        let stats = Arc::new(WorkerStats::default());
        let mut worker = Worker::new(
            0,
            Arc::clone(&mailbox),
            Arc::clone(&stats),
            Access::default(),
            Latency::default(),
            Complaints::default(),
            SimDriver(Rc::clone(&net)),
        );
        let front = Arc::new(Front::new(settings.listen, settings, None));
        worker.follow(&Arc::from([Arc::clone(&front)]));
        Self {
            net,
            worker,
            mailbox,
            stats,
            front,
        }
    }

    /// A client that takes all it is sent.
    pub(super) fn come(&self, says: &[u8]) -> usize {
        let mut peer = Peer::with(usize::MAX, usize::MAX);
        peer.inbound.extend(says);
        self.net.borrow_mut().come(peer)
    }

    pub(super) fn turn(&mut self) {
        self.worker
            .turn()
            .expect("the simulated poller does not fail");
    }

    /// Turns until nothing is left to do at this time.
    pub(super) fn settle(&mut self) {
        for _ in 0..100_000 {
            let before = self.metric(Metric::Signals);
            self.turn();
            if self.metric(Metric::Signals) == before && self.worker.unread.is_empty() {
                return;
            }
        }
        panic!("the worker turns in circles");
    }

    /// Lets time pass in steps of a tenth of a second, with a turn each.
    pub(super) fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            let now = self.net.borrow().now;
            self.net.borrow_mut().now = Tick(now.0 + 100);
            self.turn();
        }
    }

    /// The peers called so far, with their addresses.
    pub(super) fn calls(&self) -> Vec<(SocketAddr, usize)> {
        self.net.borrow().calls.clone()
    }

    pub(super) fn heard(&self, peer: usize) -> Vec<u8> {
        self.net.borrow().peers[peer].heard.clone()
    }

    pub(super) fn metric(&self, metric: Metric) -> u64 {
        self.stats.get(metric)
    }

    /// Nothing is left of any connection.
    pub(super) fn assert_empty(&mut self) {
        self.pass(Duration::from_secs(3));
        assert_eq!(self.worker.pairs.len(), 0, "records");
        assert_eq!(self.metric(Metric::Connections), 0, "connections");
        assert_eq!(self.metric(Metric::Pipes), 0, "pipes counted");
        let net = self.net.borrow();
        assert_eq!((net.sockets, net.pipes), (0, 0), "sockets and pipes");
        for backend in &self.front.backends {
            let connections = backend
                .connections
                .load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(connections, 0, "connections of {}", backend.name);
        }
        drop(net);
        self.audit();
    }

    /// What the worker has counted is what happened.
    fn audit(&self) {
        let metric = |metric| self.metric(metric);
        let polls: u64 = Metric::POLLS.map(metric).iter().sum();
        assert_eq!(polls, metric(Metric::Turns), "polls");
        let net = self.net.borrow();
        let worked = metric(Metric::Busy) + metric(Metric::Waiting);
        let passed = net.now.since(Tick::default());
        assert_eq!(u128::from(worked), passed.as_nanos(), "time");

        let (accepted, connects) = (metric(Metric::Accepted), metric(Metric::Connects));
        let (failed, retries) = (metric(Metric::ConnectsFailed), metric(Metric::Retries));
        assert!(retries <= failed && failed <= connects, "connects");
        // One that fails at once has no socket.
        let closed = metric(Metric::Closes);
        let sockets = accepted + connects - failed..=accepted + connects;
        assert!(sockets.contains(&closed), "{closed} of {sockets:?} closed");

        let settings = &self.front.settings;
        let (read, sent) = (
            metric(Metric::BytesRead),
            metric(Metric::BytesUp) + metric(Metric::BytesDown),
        );
        if settings.check.is_none() {
            let heard: usize = net.peers.iter().map(|peer| peer.heard.len()).sum();
            assert_eq!(sent, heard as u64, "bytes sent");
        }
        if settings.proxy_in.is_none() && settings.proxy_out.is_none() {
            assert!(sent <= read, "{sent} bytes sent of {read} received");
            if metric(Metric::ClosedDone) == accepted {
                assert_eq!(sent, read, "nobody broke off");
            }
        }
    }
}
