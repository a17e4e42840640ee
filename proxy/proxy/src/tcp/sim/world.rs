//! One worker, its listener and its network.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use reactor::{Mailbox, MetricSet, RateLimitedWarnings, Tick};
use simulated::network::{Behaviour, Peer, SharedNetwork, network};
use simulated::{SimDriver, Turns};

use crate::tcp::access_log::AccessLogLines;
use crate::tcp::frontend::{Frontend, Frontends};
use crate::tcp::latency::{LatencyRecorder, LatencyReport};
use crate::tcp::limits::WARNING_INTERVAL;
use crate::tcp::metrics::{Metric, WorkerCounters};
use crate::tcp::settings::{BackendAddress, Check, ListenerSettings};
use crate::tcp::worker::{Shared, Worker, WorkerCommand};

pub(super) struct World {
    pub(super) net: SharedNetwork,
    pub(super) worker: Worker<SimDriver>,
    turns: Turns,
    pub(super) mailbox: Arc<Mailbox<WorkerCommand>>,
    counters: Arc<WorkerCounters>,
    pub(super) frontend: Arc<Frontend>,
    pub(super) latency: Receiver<LatencyReport>,
}

/// Returns the address of a backend.
pub(super) fn backend(number: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 1, number], 80))
}

/// Makes the settings of a listener with this number of backends.
pub(crate) fn settings(backends: u8) -> ListenerSettings {
    let listen = SocketAddr::from(([127, 0, 0, 1], 9000));
    let named = |number| BackendAddress {
        name: format!("b{number}"),
        address: backend(number),
    };
    ListenerSettings::new(listen, (0..backends).map(named).collect())
}

/// Makes a check that connects and sends nothing.
pub(super) const fn checked_each_second() -> Check {
    Check {
        interval: Duration::from_secs(1),
        timeout: Duration::from_millis(500),
        rise: 2,
        fall: 2,
        send: Vec::new(),
        expect: Vec::new(),
    }
}

impl World {
    pub(super) fn new(settings: ListenerSettings) -> Self {
        let net = network(usize::MAX);
        let accepts = |named: &BackendAddress| (named.address, Behaviour::Accepts);
        net.borrow_mut()
            .behaviours
            .extend(settings.backends.iter().map(accepts));
        net.borrow_mut().now = Tick(1_000);
        let mailbox = Arc::new(Mailbox::new(usize::MAX).expect("an eventfd"));
        let counters = Arc::new(WorkerCounters::default());
        let (reports, latency) = sync_channel(16);
        let shared = Shared {
            mailbox: Arc::clone(&mailbox),
            counters: Arc::clone(&counters),
            access_log: AccessLogLines::default(),
            latency: LatencyRecorder::new(Some(reports)),
            warnings: RateLimitedWarnings::new(WARNING_INTERVAL),
            // Small, so that a few bytes are bulk.
            block_bytes: 64,
        };
        let mut worker = Worker::new(0, shared, SimDriver(Rc::clone(&net)));
        let frontend = Arc::new(Frontend::new(settings.listen, settings, None));
        worker.follow(&Arc::from([Arc::clone(&frontend)]));
        Self {
            turns: Turns::new(&mut worker),
            net,
            worker,
            mailbox,
            counters,
            frontend,
            latency,
        }
    }

    /// Returns a configuration that consists of the frontend.
    pub(super) fn frontends(&self) -> Frontends {
        Arc::from([Arc::clone(&self.frontend)])
    }

    /// Connects a client that has sent `says` and accepts everything. Returns its number.
    pub(super) fn come(&self, says: &[u8]) -> usize {
        let mut peer = Peer::with(usize::MAX, usize::MAX);
        peer.inbound.extend(says);
        self.net.borrow_mut().come(peer)
    }

    /// Connects a client from this address. Returns its number.
    pub(super) fn come_from(&self, ip: &str) -> usize {
        let client = self.come(b"x");
        let ip: IpAddr = ip.parse().expect("an address");
        self.net.borrow_mut().peers[client].source = Some((ip, 1000).into());
        client
    }

    /// Sends the worker new settings of its listener.
    pub(super) fn reload(&self, settings: ListenerSettings) {
        let before = Some(&*self.frontend);
        let frontend = Frontend::new(settings.listen, settings, before);
        let frontends = Arc::from([Arc::new(frontend)]);
        self.mailbox.insert(WorkerCommand::Reload(frontends));
    }

    /// Ends both sides of a connection, and lets the worker close it.
    pub(super) fn hang_up(&mut self, client: usize, server: usize) {
        self.net.borrow_mut().end(client);
        self.net.borrow_mut().end(server);
        self.settle();
    }

    /// Lets the worker take a turn if it has a reason to wake. Returns whether it had.
    pub(super) fn turn(&mut self) -> bool {
        self.turns.take(&mut self.worker, &self.mailbox)
    }

    /// Lets the worker take turns until it sleeps, without letting time pass.
    pub(super) fn settle(&mut self) {
        let turns = (0..100_000).take_while(|_| self.turn()).count();
        assert!(turns < 100_000, "the worker turns in circles");
    }

    /// Lets time pass in steps of a tenth of a second. The worker may take one turn in each.
    pub(super) fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.net.borrow_mut().pass(Duration::from_millis(100));
            self.turn();
        }
    }

    /// Returns the connections to backends so far: addresses and numbers of the peers.
    pub(super) fn connects(&self) -> Vec<(SocketAddr, usize)> {
        self.net.borrow().connects.clone()
    }

    pub(super) fn heard(&self, peer: usize) -> Vec<u8> {
        self.net.borrow().peers[peer].outbound.clone()
    }

    /// Returns whether the worker has reset the connection to a peer.
    pub(super) fn is_reset(&self, peer: usize) -> bool {
        let net = self.net.borrow();
        net.peers[peer].closed && net.peers[peer].reset
    }

    pub(super) fn metric(&self, metric: Metric) -> u64 {
        self.counters.get(metric)
    }

    /// Asserts that nothing is left of any connection.
    pub(super) fn assert_empty(&mut self) {
        self.pass(Duration::from_secs(3));
        assert!(self.worker.table.is_empty(), "records");
        assert_eq!(self.metric(Metric::Connections), 0, "connections");
        assert_eq!(self.metric(Metric::Pipes), 0, "pipes counted");
        let net = self.net.borrow();
        assert_eq!((net.sockets, net.pipes), (0, 0), "sockets and pipes");
        for backend in &self.frontend.backends {
            let connections = backend
                .connections
                .load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(connections, 0, "connections of {}", backend.name);
        }
        let sources = &self.frontend.counts.sources;
        assert!(sources.is_empty(), "connections of sources");
        drop(net);
        // Time is counted when the worker wakes.
        self.mailbox.ring();
        assert!(self.turn(), "it was rung");
        self.audit();
    }

    /// Checks the worker's metrics against what has happened in the network.
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

        let settings = &self.frontend.settings;
        let (read, sent) = (
            metric(Metric::BytesRead),
            metric(Metric::BytesUp) + metric(Metric::BytesDown),
        );
        if settings.check.is_none() {
            let heard: usize = net.peers.iter().map(|peer| peer.outbound.len()).sum();
            assert_eq!(sent, heard as u64, "bytes sent");
        }
        if settings.proxy_in.is_none() && settings.proxy_out.is_none() {
            assert!(sent <= read, "{sent} bytes sent of {read} received");
            if metric(Metric::ClosedDone) == accepted {
                assert_eq!(sent, read, "no peer broke off");
            }
        }
    }
}
