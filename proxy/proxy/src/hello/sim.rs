//! The real worker over a simulated network, in virtual time. It wakes only when a real poller
//! would have returned.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Handler, Mailbox, MetricSet, RateLimitedWarnings, Tick};
use simulated::network::{Peer, SharedNetwork, network};
use simulated::{SimDriver, Turns};

use super::answer::Answer;
use super::limits::{LINGER, WARNING_INTERVAL};
use super::metrics::{Metric, WorkerCounters};
use super::worker::{Worker, WorkerCommand, WorkerConfig};
use super::{Settings, listener_options};

/// Table of requests, used in the tests of all listeners.
#[allow(
    dead_code,
    unreachable_pub,
    reason = "tests of other crates include it"
)]
#[path = "../../../../harness/tests/conformance/table.rs"]
mod table;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// How long connections may be silent.
const IDLE: Duration = Duration::from_secs(4);

/// One worker, its listener and its network.
struct World {
    net: SharedNetwork,
    worker: Worker<SimDriver>,
    turns: Turns,
    mailbox: Arc<Mailbox<WorkerCommand>>,
    counters: Arc<WorkerCounters>,
}

impl World {
    fn new() -> Self {
        Self::answering(b"hello")
    }

    fn answering(body: &[u8]) -> Self {
        let net = network(usize::MAX);
        net.borrow_mut().now = Tick(1_000);
        let mailbox = Arc::new(Mailbox::new(usize::MAX).expect("an eventfd"));
        let counters = Arc::new(WorkerCounters::default());
        let config = WorkerConfig {
            mailbox: Arc::clone(&mailbox),
            counters: Arc::clone(&counters),
            warnings: RateLimitedWarnings::new(WARNING_INTERVAL),
            answer: Answer::new(200, &[], body).expect("a valid answer"),
            idle_timeout: IDLE,
        };
        let mut worker = Worker::new(SimDriver(Rc::clone(&net)), config);
        let settings = Settings {
            listen: "127.0.0.1:80".parse().expect("valid"),
            answer: Answer::new(200, &[], b"").expect("a valid answer"),
            workers: 1,
            private_fds: false,
            idle_timeout: IDLE,
            defer_accept: false,
            fast_open: false,
        };
        worker
            .listen(settings.listen, &listener_options(&settings))
            .expect("the simulated network has room");
        Self {
            turns: Turns::new(&mut worker),
            net,
            worker,
            mailbox,
            counters,
        }
    }

    /// Connects a client that has sent `request` and accepts `room` bytes. Returns its number.
    fn come(&self, request: &[u8], room: usize) -> usize {
        let mut peer = Peer::with(room, usize::MAX);
        peer.inbound.extend(request);
        self.net.borrow_mut().come(peer)
    }

    /// Lets the worker take a turn if it has a reason to wake. Returns whether it had.
    fn turn(&mut self) -> bool {
        self.turns.take(&mut self.worker, &self.mailbox)
    }

    /// Lets the worker take turns until it sleeps.
    fn settle(&mut self) {
        let turns = (0..100_000).take_while(|_| self.turn()).count();
        assert!(turns < 100_000, "the worker turns in circles");
    }

    /// Lets time pass in steps of a tenth of a second until `happened` holds, and returns how much
    /// it was.
    fn time_until(&mut self, happened: impl Fn(&Self) -> bool) -> Duration {
        for tenths in 0..100 {
            if happened(self) {
                return Duration::from_millis(100 * tenths);
            }
            self.net.borrow_mut().pass(Duration::from_millis(100));
            self.settle();
        }
        panic!("it does not happen");
    }

    fn metric(&self, metric: Metric) -> u64 {
        self.counters.get(metric)
    }

    fn answers(&self, client: usize) -> usize {
        let heard = &self.net.borrow().peers[client].outbound;
        let heads = heard.windows(15);
        heads.filter(|window| window == b"HTTP/1.1 200 OK").count()
    }

    fn is_closed(&self, client: usize) -> bool {
        self.net.borrow().peers[client].closed
    }

    /// Ends the worker, and asserts that nothing is left.
    fn end(mut self) {
        self.mailbox.insert(WorkerCommand::End);
        assert!(self.turn(), "a command wakes it");
        assert!(self.worker.is_over());
        assert_eq!(self.net.borrow().sockets, 0);
        assert_eq!(self.metric(Metric::Connections), 0);
    }
}

#[test]
fn a_worker_without_connections_sleeps_until_a_command_wakes_it() {
    let mut world = World::new();
    world.net.borrow_mut().now = Tick(3_600_000);
    assert!(!world.turn());
    assert_eq!(world.metric(Metric::TURNS), 0);
    world.end();
}

#[test]
fn a_silent_connection_wakes_the_worker_within_an_eighth_of_its_time() {
    let mut world = World::new();
    let client = world.come(GET, usize::MAX);
    world.settle();
    assert_eq!(world.answers(client), 1);
    let passed = world.time_until(|world| world.is_closed(client));
    let latest = IDLE + IDLE / 8 + Duration::from_millis(500);
    assert!((IDLE..=latest).contains(&passed), "{passed:?}");
    world.end();
}

#[test]
fn a_client_that_does_not_end_its_side_wakes_the_worker_in_time() {
    let mut world = World::new();
    // Something follows the last request, so the connection lingers.
    let client = world.come(&[LAST, b"more"].concat(), usize::MAX);
    world.settle();
    assert_eq!(world.answers(client), 1);
    assert!(world.net.borrow().peers[client].worker_ended);
    // Only its own timer can wake the worker.
    let passed = world.time_until(|world| world.is_closed(client));
    let latest = LINGER + Duration::from_millis(100);
    assert!((LINGER..=latest).contains(&passed), "{passed:?}");
    world.end();
}

#[test]
fn a_worker_without_descriptors_sleeps_and_accepts_again_in_time() {
    let mut world = World::new();
    world.net.borrow_mut().descriptors = 0;
    let client = world.come(LAST, usize::MAX);
    world.settle();
    assert!(world.net.borrow().is_paused());
    assert!(!world.turn(), "the listener is not reported");
    world.net.borrow_mut().descriptors = usize::MAX;
    let passed = world.time_until(|world| world.answers(client) == 1);
    assert_eq!(passed, Duration::from_millis(100));
    assert_eq!(world.metric(Metric::AcceptPauses), 1);
    world.net.borrow_mut().end(client);
    world.settle();
    world.end();
}

/// A client connects with more requests than it has room for answers, and the worker reads at once,
/// so that the socket is full before it is watched.
#[test]
fn a_socket_that_is_full_before_it_is_watched_is_watched_once() {
    let mut world = World::new();
    // After many connections that arrive with their requests, the worker reads before it watches.
    for _ in 0..100 {
        let client = world.come(LAST, usize::MAX);
        world.settle();
        world.net.borrow_mut().end(client);
        world.settle();
    }
    let before = world.metric(Metric::Watches);
    let client = world.come(&GET.repeat(10), 50);
    world.settle();
    assert_eq!(world.net.borrow().peers[client].outbound.len(), 50);
    assert_eq!(world.metric(Metric::Watches) - before, 1);
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.settle();
    assert_eq!(world.answers(client), 10, "its room was watched");
    world.net.borrow_mut().end(client);
    world.settle();
    world.end();
}

/// `epoll_ctl` may fail for want of memory. Without the watch, no signal would ever tell that the
/// client has room again.
#[test]
fn a_full_client_that_cannot_be_watched_is_closed_and_others_go_on() {
    let mut world = World::new();
    world.net.borrow_mut().refused_changes = 1;
    let clients = [(), ()].map(|()| {
        let client = world.come(GET, 5);
        world.settle();
        client
    });
    assert!(world.is_closed(clients[0]));
    assert_eq!(world.net.borrow().peers[clients[0]].outbound.len(), 5);
    world.net.borrow_mut().make_room(clients[1], usize::MAX);
    world.settle();
    assert_eq!(world.answers(clients[1]), 1);
    world.net.borrow_mut().end(clients[1]);
    world.settle();
    world.end();
}

#[test]
fn clients_that_wait_at_the_end_are_answered() {
    let mut world = World::new();
    // More than one turn accepts.
    let clients: Vec<usize> = (0..200).map(|_| world.come(GET, usize::MAX)).collect();
    world.mailbox.insert(WorkerCommand::End);
    world.settle();
    for client in clients {
        assert_eq!(world.answers(client), 1);
        assert!(world.is_closed(client));
    }
    assert!(world.worker.is_over());
}

#[test]
fn answers_that_a_client_has_not_taken_outlive_the_end() {
    let mut world = World::new();
    let client = world.come(GET, 5);
    world.settle();
    world.mailbox.insert(WorkerCommand::End);
    world.settle();
    assert!(!world.worker.is_over());
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.settle();
    assert_eq!(world.answers(client), 1);
    assert!(world.net.borrow().peers[client].worker_ended);
    world.net.borrow_mut().end(client);
    world.settle();
    assert!(world.worker.is_over());
}

/// The answers to one block of requests exceed the limit of unsent bytes, so the rest of the
/// requests is kept.
#[test]
fn requests_that_were_kept_are_answered_when_there_is_room() {
    let mut world = World::answering(&[b'x'; 1_000]);
    let requests = 500;
    let client = world.come(&GET.repeat(requests), 0);
    world.settle();
    assert_eq!(world.answers(client), 0);
    while world.answers(client) < requests {
        let before = world.answers(client);
        world.net.borrow_mut().make_room(client, 100_000);
        world.settle();
        assert!(world.answers(client) > before, "it stands still");
    }
    world.net.borrow_mut().end(client);
    world.settle();
    world.end();
}

#[test]
fn requests_beyond_the_budget_of_a_turn_need_no_signal() {
    let mut world = World::new();
    let requests = 10_000;
    let client = world.come(&GET.repeat(requests), usize::MAX);
    world.settle();
    assert_eq!(world.answers(client), requests);
    assert!(
        world.metric(Metric::TURNS) > 2,
        "more than one turn's budget"
    );
    world.net.borrow_mut().end(client);
    world.settle();
    world.end();
}

#[test]
fn each_request_of_the_table_has_its_outcome_at_every_split() {
    for row in table::rows() {
        let (input, expected) = (row.input(), row.hello.with_marker(200));
        let mut world = World::new();
        for split in table::splits(&input) {
            let client = world.come(&input[..split], usize::MAX);
            world.settle();
            if !world.net.borrow().peers[client].worker_ended {
                world.net.borrow_mut().say(client, &input[split..]);
                world.settle();
            }
            let (name, ended) = (row.name, world.net.borrow().peers[client].worker_ended);
            let heard = world.net.borrow().peers[client].outbound.clone();
            let heard = String::from_utf8(heard).expect("answers are text");
            let statuses = table::statuses(&heard);
            assert_eq!(statuses, expected, "{name}, split at {split}");
            // The marker asks for the end; what is not whole is waited for.
            assert_eq!(ended, row.head != "more", "{name}, split at {split}");
            world.net.borrow_mut().end(client);
            world.settle();
        }
        world.end();
    }
}
