//! Tests of the webhook with receivers that are slow, hostile, unreachable or gone.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use graph::Id;
use parking_lot::Mutex;

use crate::event::{Event, EventTypes};
use crate::limits::{
    ANSWER_BODY_BYTES_MAX, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, Pace, QUEUED_BYTES_MAX,
    QUEUED_EVENTS_MAX,
};
use crate::outside::{OutsideUrl, UrlErrors};
use crate::queue::{Batch, Queue};
use crate::secret::{Secret, signatures};
use crate::webhook::{Settings, Webhook};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ALL: EventTypes = EventTypes {
    connects: true,
    disconnects: true,
    presence: true,
};
const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BUSY: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno";
const PACE: Pace = Pace {
    batch_delay: Duration::from_millis(10),
    backoff_min: Duration::from_millis(20),
    flush_time: Duration::from_millis(500),
};
/// A time limit that is not reached.
const LONG: Duration = Duration::from_secs(30);

/// A request that a receiver got.
#[derive(Debug)]
struct Request {
    id: String,
    timestamp: u64,
    signature: String,
    body: String,
}

impl Request {
    /// Returns the types of its events; `missed` with the number of missed events.
    fn types(&self) -> Vec<String> {
        let events: Vec<serde_json::Value> = serde_json::from_str(&self.body).unwrap();
        let name = |event: &serde_json::Value| match event["type"].as_str().unwrap() {
            "missed" => format!("missed {}", event["events"]),
            name => format!("{name} {}", event["id"]),
        };
        events.iter().map(name).collect()
    }
}

/// Starts a receiver that answers its requests with `answers` one after the other, and all further
/// ones with the last of them. An empty answer closes the connection. Returns its URL and the
/// requests.
fn receiver(answers: &'static [&'static str]) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?key=1", listener.local_addr().unwrap());
    let (sender, requests) = sync_channel(1_000);
    thread::spawn(move || {
        let mut number = 0;
        for connection in listener.incoming() {
            serve(connection.unwrap(), answers, &mut number, &sender);
        }
    });
    (url, requests)
}

fn serve(
    mut connection: TcpStream,
    answers: &[&str],
    number: &mut usize,
    sender: &SyncSender<Request>,
) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    loop {
        let mut length = 0;
        let mut request = Request {
            id: String::new(),
            timestamp: 0,
            signature: String::new(),
            body: String::new(),
        };
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                if line.trim_end().is_empty() {
                    break;
                }
                assert!(line.starts_with("POST /hook?key=1 HTTP/1.1"), "{line}");
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "webhook-id" => request.id = value.to_owned(),
                "webhook-timestamp" => request.timestamp = value.parse().unwrap(),
                "webhook-signature" => request.signature = value.to_owned(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        request.body = String::from_utf8(body).unwrap();
        let answer = answers[(*number).min(answers.len() - 1)];
        *number += 1;
        sender.send(request).unwrap();
        if answer.is_empty() || connection.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn settings(url: &str) -> Settings {
    Settings {
        url: OutsideUrl::parse(url, &UrlErrors::OF_RECEIVERS).unwrap(),
        secrets: Secret::parse_all(SECRET).unwrap(),
        authorities: None,
        timeout: LONG,
        give_up: LONG,
    }
}

fn id(text: &str) -> Id {
    text.parse().unwrap()
}

fn online(queue: &Queue, name: &str) {
    let id = &id(name);
    queue.push(Event::Presence { id, online: true }, 1);
}

fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < deadline, "{what} takes too long");
        thread::yield_now();
    }
}

#[test]
fn events_of_configured_types_are_sent_signed_and_in_order() {
    let (url, requests) = receiver(&[OK]);
    let types = EventTypes {
        connects: true,
        presence: true,
        ..EventTypes::default()
    };
    let queue = Queue::new(types, Some("n1"));
    let webhook = Webhook::start_at(PACE, settings(&url), queue.clone()).unwrap();
    let ids = [id("alice")];
    let (session, transport) = ("0:0:1", "sse");
    let reason = "peer";
    let connect = Event::Connect {
        session,
        ids: &ids,
        transport,
    };
    let disconnect = Event::Disconnect {
        session,
        ids: &ids,
        transport,
        reason,
    };
    queue.push(connect, 1);
    queue.push(disconnect, 1);
    online(&queue, "bob");
    let mut types = Vec::new();
    while types.len() < 2 {
        let request = requests.recv_timeout(LONG).unwrap();
        let secrets = Secret::parse_all(SECRET).unwrap();
        let Request {
            id,
            timestamp,
            body,
            signature,
        } = &request;
        let expected = signatures(&secrets, id, *timestamp, body.as_bytes());
        assert_eq!(*signature, expected);
        assert!(body.contains(r#""node":"n1""#), "{body}");
        types.extend(request.types());
    }
    assert_eq!(types, ["connect \"alice\"", "online \"bob\""]);
    until("the answer", || webhook.stats().delivered == 2);
    assert_eq!(webhook.stats().dropped, 0);
}

#[test]
fn a_request_is_repeated_with_its_id_until_it_is_accepted() {
    let (url, requests) = receiver(&[BUSY, "", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", OK]);
    let queue = Queue::new(ALL, None);
    let webhook = Webhook::start_at(PACE, settings(&url), queue.clone()).unwrap();
    online(&queue, "a");
    let first = requests.recv_timeout(LONG).unwrap();
    online(&queue, "b");
    for _ in 0..3 {
        let again = requests.recv_timeout(LONG).unwrap();
        assert_eq!(
            (again.id, again.body),
            (first.id.clone(), first.body.clone())
        );
    }
    let next = requests.recv_timeout(LONG).unwrap();
    assert_ne!(next.id, first.id);
    assert_eq!(next.types(), ["online \"b\""]);
    until("the answer", || webhook.stats().delivered == 2);
    let stats = webhook.stats();
    assert_eq!((stats.accepted, stats.refused, stats.failed), (2, 2, 1));
    assert_eq!((stats.dropped, stats.queued_events), (0, 0));
}

#[test]
fn events_that_are_not_accepted_in_time_are_dropped_and_the_next_request_says_so() {
    let (url, requests) = receiver(&[BUSY]);
    let queue = Queue::new(ALL, None);
    let give_up = Duration::ZERO;
    let settings = Settings {
        give_up,
        ..settings(&url)
    };
    let webhook = Webhook::start_at(PACE, settings, queue.clone()).unwrap();
    online(&queue, "a");
    assert_eq!(
        requests.recv_timeout(LONG).unwrap().types(),
        ["online \"a\""]
    );
    until("the end of the first", || webhook.stats().dropped == 1);
    online(&queue, "b");
    assert_eq!(
        requests.recv_timeout(LONG).unwrap().types(),
        ["missed 1", "online \"b\""]
    );
    until("the end of the second", || webhook.stats().dropped == 2);
    online(&queue, "c");
    let third = requests.recv_timeout(LONG).unwrap();
    assert_eq!(third.types(), ["missed 2", "online \"c\""]);
}

#[test]
fn a_receiver_that_hangs_blocks_nobody_and_the_oldest_events_are_dropped() {
    // Its connections are never accepted.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let queue = Queue::new(ALL, None);
    let webhook = Webhook::start_at(PACE, settings(&url), queue.clone()).unwrap();
    online(&queue, "first");
    until("the first request", || {
        queue.counts().events == 0 && webhook.stats().queued_events == 1
    });
    let began = Instant::now();
    for number in 0..QUEUED_EVENTS_MAX + 10 {
        online(&queue, &number.to_string());
    }
    assert!(began.elapsed() < LONG / 2);
    let counts = queue.counts();
    assert_eq!(counts.events, QUEUED_EVENTS_MAX as u64);
    assert_eq!(webhook.stats().dropped, 10);
    let began = Instant::now();
    webhook.end();
    assert!(
        began.elapsed() < PACE.flush_time * 10,
        "the end does not wait"
    );
    let batch = queue.next_batch(PACE.batch_delay);
    assert_eq!(batch, None, "its time is over");
}

#[test]
fn a_batch_is_bounded_and_begins_with_what_was_missed() {
    let queue = Queue::new(ALL, None);
    for number in 0..QUEUED_EVENTS_MAX + 3 {
        online(&queue, &number.to_string());
    }
    let batch = queue.next_batch(PACE.batch_delay).unwrap();
    assert_eq!((batch.events, batch.missed), (BATCH_EVENTS_MAX as u64, 3));
    let body: Vec<serde_json::Value> = serde_json::from_slice(&batch.body).unwrap();
    assert_eq!(body.len(), BATCH_EVENTS_MAX + 1);
    assert_eq!((&body[0]["events"], &body[1]["id"]), (&3.into(), &3.into()));
    let next = queue.next_batch(PACE.batch_delay).unwrap();
    assert_eq!((next.events, next.missed), (BATCH_EVENTS_MAX as u64, 0));
}

#[test]
fn many_bytes_wait_for_no_receiver_and_come_in_bounded_requests() {
    let queue = Queue::new(ALL, None);
    let ids: Vec<_> = (0..128)
        .map(|number| id(&format!("{number:x>128}")))
        .collect();
    let event = Event::Connect {
        session: "0/1#0",
        ids: &ids,
        transport: "sse",
    };
    let pushed = 2 * QUEUED_BYTES_MAX / (128 * 128);
    for _ in 0..pushed {
        queue.push(event, 1);
    }
    let counts = queue.counts();
    assert!(counts.bytes <= QUEUED_BYTES_MAX as u64, "{counts:?}");
    assert!(counts.events > pushed as u64 / 3, "{counts:?}");
    assert_eq!(counts.events + counts.dropped, pushed as u64);
    let batch = queue.next_batch(PACE.batch_delay).unwrap();
    assert!(batch.events > 1, "{}", batch.events);
    assert!(batch.body.len() <= BATCH_BYTES_MAX + 1);
}

#[test]
fn the_body_of_an_answer_is_read_up_to_a_bound() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // What the sockets of both sides hold comes to the bound.
    let most = ANSWER_BODY_BYTES_MAX + (32 << 20);
    let receiver = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * most);
        connection.write_all(head.as_bytes()).unwrap();
        let mut written = 0;
        while written < 2 * most && connection.write_all(&[b'x'; 64 << 10]).is_ok() {
            written += 64 << 10;
        }
        written
    });
    let queue = Queue::new(ALL, None);
    let webhook = Webhook::start_at(PACE, settings(&url), queue.clone()).unwrap();
    online(&queue, "a");
    until("the answer", || webhook.stats().delivered == 1);
    webhook.end();
    assert!(receiver.join().unwrap() < most);
}

#[test]
fn a_receiver_that_is_gone_gets_nothing_until_a_reload() {
    let (url, requests) = receiver(&["HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", OK]);
    let queue = Queue::new(ALL, None);
    let webhook = Webhook::start_at(PACE, settings(&url), queue.clone()).unwrap();
    online(&queue, "a");
    requests.recv_timeout(LONG).unwrap();
    until("the end", || webhook.stats().is_stopped);
    online(&queue, "b");
    until("the drop", || webhook.stats().dropped == 2);
    assert_eq!(webhook.stats().queued_events, 0);
    webhook.reload(&Secret::parse_all(SECRET).unwrap());
    online(&queue, "c");
    let after = requests.recv_timeout(LONG).unwrap();
    assert_eq!(after.types(), ["missed 2", "online \"c\""]);
}

#[test]
fn waiting_events_are_sent_when_the_server_ends() {
    let (url, requests) = receiver(&[OK]);
    let queue = Queue::new(ALL, None);
    let webhook = Webhook::start_at(PACE, settings(&url), queue.clone()).unwrap();
    for number in 0..2_500 {
        online(&queue, &number.to_string());
    }
    webhook.end();
    let stats = webhook.stats();
    assert_eq!((stats.delivered, stats.queued_events), (2_500, 0));
    let types: Vec<String> = requests
        .try_iter()
        .flat_map(|request| request.types())
        .collect();
    let expected: Vec<String> = (0..2_500)
        .map(|number| format!("online {number}"))
        .collect();
    assert_eq!(types, expected);
}

/// Returns a queue of a node of a cluster, and the positions that it has reported.
fn of_cluster(node: &str) -> (Arc<Queue>, Arc<Mutex<Vec<u64>>>) {
    let queue = Queue::new(ALL, Some(node));
    let told = Arc::<Mutex<Vec<u64>>>::default();
    let into = Arc::clone(&told);
    queue.follow_log("e", Arc::new(move |place| into.lock().push(place)));
    (queue, told)
}

fn edges(queue: &Queue, place: u64, names: &[&str], online: bool, time: u64) {
    let ids: Vec<Id> = names.iter().map(|name| id(name)).collect();
    queue.push_edges(place, ids.iter().map(|id| (id, online)), time);
}

#[test]
fn edges_of_a_position_have_the_same_request_id_on_all_nodes() {
    let name = |node, place, names: &[&str], online| {
        let (queue, _) = of_cluster(node);
        edges(&queue, place, names, online, place);
        queue.next_batch(PACE.batch_delay).unwrap().name.unwrap()
    };
    let one = name("n1", 7, &["a", "b"], true);
    assert_eq!(one, name("n2", 7, &["a", "b"], true));
    assert_eq!(one, name("n2", 7, &["b", "a"], true), "no order");
    for other in [
        name("n1", 8, &["a", "b"], true),
        name("n1", 7, &["a"], true),
        name("n1", 7, &["a", "b", "c"], true),
        name("n1", 7, &["a", "b"], false),
    ] {
        assert_ne!(one, other);
    }
    let (queue, _) = of_cluster("n1");
    online(&queue, "a");
    assert_eq!(queue.next_batch(PACE.batch_delay).unwrap().name, None);
}

#[test]
fn a_request_has_edges_of_one_position_and_the_nodes_are_told_when_it_has_ended() {
    let (url, requests) = receiver(&[BUSY, OK]);
    let (queue, told) = of_cluster("n1");
    let many: Vec<String> = (0..=BATCH_EVENTS_MAX).map(|it| it.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    edges(&queue, 5, &["a", "b"], true, 1);
    edges(&queue, 9, &many, false, 1);
    online(&queue, "alone");
    let webhook = Webhook::start_at(PACE, settings(&url), queue.clone()).unwrap();
    let next = || requests.recv_timeout(LONG).unwrap();
    let (first, again) = (next(), next());
    assert_eq!((first.types().len(), &first.id), (2, &again.id));
    let (second, third, last) = (next(), next(), next());
    assert_eq!(second.types().len(), BATCH_EVENTS_MAX);
    assert_eq!((third.types().len(), last.types().len()), (1, 1));
    assert_ne!(second.id, third.id, "a receiver passes over what it knows");
    assert!(first.id.starts_with("msg_e_5_") && third.id.starts_with("msg_e_9_"));
    until("the end", || told.lock().len() == 2);
    assert_eq!(*told.lock(), [5, 9]);
    until("the last answer", || webhook.stats().queued_events == 0);
}

#[test]
fn missed_events_are_not_reported_in_a_request_that_a_receiver_may_know() {
    let (queue, _) = of_cluster("n1");
    for number in 0..=QUEUED_EVENTS_MAX {
        online(&queue, &number.to_string());
    }
    while queue.next_batch(PACE.batch_delay).unwrap().events == BATCH_EVENTS_MAX as u64 {}
    let batch = Batch {
        body: Vec::new(),
        events: 3,
        missed: 0,
        place: None,
        ends_place: false,
        name: None,
    };
    queue.give_up(&batch);
    edges(&queue, 5, &["a"], true, 1);
    let missed = queue.next_batch(PACE.batch_delay).unwrap();
    assert_eq!((missed.events, missed.missed, missed.name), (0, 3, None));
    assert!(serde_json::from_slice::<serde_json::Value>(&missed.body).is_ok());
    let next = queue.next_batch(PACE.batch_delay).unwrap();
    assert_eq!((next.events, next.missed, next.place), (1, 0, Some(5)));
}

#[test]
fn positions_that_are_given_up_are_reported_except_at_the_end_of_the_server() {
    let (url, requests) = receiver(&[BUSY]);
    let (queue, told) = of_cluster("n1");
    let settings_of = |give_up| Settings {
        give_up,
        ..settings(&url)
    };
    let webhook = Webhook::start_at(PACE, settings_of(Duration::ZERO), queue.clone()).unwrap();
    edges(&queue, 5, &["a"], true, 1);
    requests.recv_timeout(LONG).unwrap();
    until("the end of it", || *told.lock() == [5]);
    webhook.end();
    // At the end of the server the heir of the node continues.
    let (queue, told) = of_cluster("n1");
    let webhook = Webhook::start_at(PACE, settings_of(LONG), queue.clone()).unwrap();
    edges(&queue, 6, &["a"], true, 1);
    requests.recv_timeout(LONG).unwrap();
    webhook.end();
    assert_eq!(*told.lock(), [0; 0]);
}
