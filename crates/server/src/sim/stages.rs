//! Single stages over the simulated network, each without the rest of the worker.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Accepted, Driver, Interest, RateLimitedWarnings, SlotKey, Token};
use simulated::SimDriver;
use simulated::network::{LISTENER, SharedNetwork as Shared, network};
use wire::encoding::Encoding;
use wire::head::{HeadError, Request};
use wire::transport::Framing;

use crate::heartbeat::Heartbeats;
use crate::ingress::{Ingress, RequestHandler};
use crate::limits::{Limits, REQUESTS_PER_TURN};
use crate::open_session::{Marks, Session};
use crate::session::WebSockets;
use crate::slow_policy::SlowPolicy;
use crate::stage::Stage as _;
use crate::stats::{Metric, WorkerStats};
use crate::table::{CloseReason, ConnectionTable, Phase};

type Table = ConnectionTable<SimDriver>;

fn table() -> (Table, Shared) {
    let net = network(10);
    let mut driver = SimDriver(Shared::clone(&net));
    let token = Token::listener(0);
    let address = ([127, 0, 0, 1], 1).into();
    driver.listen(address, &LISTENER, token).expect("it opens");
    let stats = Arc::new(WorkerStats::default());
    (
        ConnectionTable::new(driver, stats, Arc::default(), &Limits::SMALL, false),
        net,
    )
}

fn ingress() -> Ingress {
    Ingress::new(None, RateLimitedWarnings::new(Duration::from_secs(60)))
}

/// A connection whose client has sent `bytes`, and whose socket takes `room` bytes.
fn connect(table: &mut Table, net: &Shared, bytes: &[u8], room: usize) -> (SlotKey, usize) {
    let client = net.borrow_mut().connect(bytes, room, usize::MAX);
    let Accepted::Connection(socket, _) = table.driver.accept(&0) else {
        panic!("a connection waits")
    };
    (table.open(socket), client)
}

/// Notes the paths that are asked for, and answers each with so many bytes.
#[derive(Default)]
struct Recorder {
    paths: Vec<String>,
    errors: Vec<HeadError>,
    answer: &'static [u8],
}

impl RequestHandler<SimDriver> for Recorder {
    fn handle(&mut self, table: &mut Table, key: SlotKey, request: &Request<'_>) {
        self.paths.push(request.path.to_owned());
        table.send(key, self.answer);
    }

    fn receive(&mut self, _: &mut Table, _: SlotKey, _: &mut [u8]) {}

    fn await_record(&mut self, _: &mut Table, _: SlotKey) {}

    fn reject(&mut self, table: &mut Table, key: SlotKey, error: HeadError) {
        self.errors.push(error);
        table.close(key, CloseReason::Rejected);
    }

    fn admit_client(&mut self, _: &mut Table, _: SlotKey, client: IpAddr) {
        panic!("no PROXY header is expected, and {client} is in one");
    }

    fn refuse_unread(&mut self, _: &mut Table, _: SlotKey) {
        panic!("there is no bound on buffers");
    }

    fn reject_proxy_header(&mut self, _: &mut Table, _: SlotKey) {
        panic!("no PROXY header is expected");
    }
}

fn requests(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|n| format!("GET /{n} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes())
        .collect()
}

#[test]
fn ingress_hands_on_a_turns_worth_of_requests_and_the_rest_in_the_next_turn() {
    let (mut table, net) = table();
    let (mut ingress, mut recorder) = (ingress(), Recorder::default());
    let (key, _) = connect(&mut table, &net, &requests(REQUESTS_PER_TURN + 2), 0);
    ingress.read(&mut table, key, false, &mut recorder);
    assert_eq!(recorder.paths.len(), REQUESTS_PER_TURN);
    assert!(ingress.has_work());
    ingress.read_on(&mut table, &mut recorder);
    let expected: Vec<_> = (0..REQUESTS_PER_TURN + 2)
        .map(|n| format!("/{n}"))
        .collect();
    assert_eq!(recorder.paths, expected);
    assert!(!ingress.has_work());
}

#[test]
fn ingress_hands_on_no_request_before_the_answers_so_far_are_taken() {
    let (mut table, net) = table();
    let mut ingress = ingress();
    let mut recorder = Recorder {
        answer: b"an answer",
        ..Recorder::default()
    };
    let (key, client) = connect(&mut table, &net, &requests(3), 12);
    ingress.read(&mut table, key, false, &mut recorder);
    assert_eq!(recorder.paths, ["/0", "/1"], "the second fills the socket");
    net.borrow_mut().make_room(client, 100);
    assert_eq!(
        table.flush(key),
        Some(Phase::Head { partial: true }),
        "the table says where the connection goes on"
    );
    ingress.resume(&mut table, key, false, &mut recorder);
    assert_eq!(recorder.paths, ["/0", "/1", "/2"]);
}

#[test]
fn ingress_reports_bytes_that_are_no_request_once() {
    let (mut table, net) = table();
    let (mut ingress, mut recorder) = (ingress(), Recorder::default());
    let (key, _) = connect(
        &mut table,
        &net,
        b"rubbish\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        0,
    );
    ingress.read(&mut table, key, false, &mut recorder);
    assert_eq!((recorder.paths.len(), recorder.errors.len()), (0, 1));
    assert_eq!(table.take_closed().len(), 1);
}

#[test]
fn a_socket_that_is_full_before_it_is_watched_is_watched_for_room_in_the_same_call() {
    let (mut table, net) = table();
    let (key, _) = connect(&mut table, &net, b"", 4);
    table.send(key, b"more than four");
    assert_eq!(table.get(key).unwrap().watched, None);
    table.watch(key).unwrap();
    let watched = table.get(key).unwrap().watched;
    assert_eq!(watched, Some(Interest::ReadableAndWritable));
    assert_eq!(table.stats.get(Metric::Watches), 1);
    let mut signals = Vec::new();
    table.driver.wait(None, &mut signals).unwrap();
    assert!(signals.is_empty(), "it has no room yet");
}

#[test]
fn ended_sessions_stay_in_the_table_until_the_worker_takes_them() {
    let (mut table, net) = table();
    let (key, _) = connect(&mut table, &net, b"", 0);
    let session = Session {
        key: graph::Graph::memory().hold(&"rj".parse().unwrap()).unwrap(),
        marks: Marks::default(),
        encoding: Encoding::SsePlain,
        framing: Framing::Chunked,
        slow: SlowPolicy::Close,
    };
    table.enter(key, Phase::Open(session));
    table.close(key, CloseReason::Slow);
    table.close(key, CloseReason::Peer);
    assert!(table.get(key).is_none(), "it is closed at once");
    let ended = table.take_ended();
    assert_eq!(ended.len(), 1, "and logged out once");
    assert_eq!(ended[0].reason, CloseReason::Slow);
    let closed = table.take_closed();
    assert_eq!(closed.len(), 1);
    table.remove(&closed[0]);
    assert!(table.is_empty());
    assert_eq!(table.stats.get(Metric::ClosedSlow), 1);
}

#[test]
fn heartbeats_go_to_sessions_only() {
    let (mut table, net) = table();
    let mut heartbeats = Heartbeats::new(Duration::from_secs(1));
    assert_eq!(heartbeats.next_in(table.clock.now, table.len()), None);
    let (_, client) = connect(&mut table, &net, b"", 100);
    table.clock.now = reactor::Tick(2_000);
    heartbeats.send(&mut table, &mut WebSockets::default(), None);
    assert_eq!(net.borrow().peers[client].outbound, b"", "it is no session");
    assert!(heartbeats.next_in(table.clock.now, table.len()).is_some());
}
