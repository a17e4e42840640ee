//! One worker, its router and graph, its network, and the clients' view of it.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use graph::{Graph, Id};
use reactor::{Mailbox, Tick};
use router::{Accepted, Event, Payload, Router, Tally, WorkerId};

use super::net::{self, Shared as Net, SimDriver};
use crate::accept::Addresses;
use crate::mail::{Handle, MAILBOX_WEIGHT_MAX, Mail, Post};
use crate::settings::Settings;
use crate::stats::{Metric, WorkerStats};
use crate::worker::{Shared, Worker};

pub(super) struct World {
    pub(super) net: Net,
    pub(super) worker: Worker<SimDriver>,
    pub(super) handle: Handle,
    pub(super) mailbox: Arc<Mailbox<Mail>>,
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        let net = net::network(1_000);
        let mailbox = Arc::new(Mailbox::new(MAILBOX_WEIGHT_MAX).expect("an eventfd"));
        let post = Post(Box::new([Arc::clone(&mailbox)]));
        let router = Arc::new(Router::new("e", Arc::new(Graph::memory()), post));
        let stats = Arc::new(WorkerStats::default());
        let draining = Arc::new(AtomicBool::new(false));
        let demo = Arc::new(OnceLock::new());
        let shared = Arc::new(Shared {
            settings,
            router: Arc::clone(&router),
            demo: Arc::clone(&demo),
            connections: AtomicUsize::new(0),
            addresses: Addresses::default(),
            draining: Arc::clone(&draining),
        });
        let driver = SimDriver(Net::clone(&net));
        let handle = Handle {
            external_metrics: Arc::default(),
            router,
            stats: Arc::new([Arc::clone(&stats)]),
            draining,
            demo,
        };
        let worker = Worker::new(WorkerId(0), shared, Arc::clone(&mailbox), stats, driver);
        Self {
            net,
            worker,
            handle,
            mailbox,
        }
    }

    /// A client that asks for `key` and has room for all it is sent.
    pub(super) fn connect(&mut self, key: &str) -> usize {
        let request = format!("GET {key} HTTP/1.1\r\nHost: a\r\n\r\n");
        self.net
            .borrow_mut()
            .connect(request.as_bytes(), usize::MAX, usize::MAX)
    }

    pub(super) fn turn(&mut self) {
        self.worker
            .turn()
            .expect("the simulated poller does not fail");
    }

    /// Turns until nothing is left to do at this time.
    pub(super) fn settle(&mut self) {
        for _ in 0..8 {
            self.turn();
            while self.worker.fanout.is_owing() {
                self.turn();
            }
        }
    }

    /// Lets time pass in steps of a tenth of a second, with a turn each.
    pub(super) fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            let now = self.net.borrow().now;
            self.net.borrow_mut().now = Tick(now.0 + 100);
            self.turn();
        }
    }

    pub(super) fn publish(&self, subject: &str, text: &str) -> (Accepted, Arc<Tally>) {
        let tally = Tally::new();
        let accepted = self.handle.router().publish(event(subject, text), &tally);
        (accepted, tally)
    }

    pub(super) fn send(&self, id: &str, text: &str) -> (Accepted, Arc<Tally>) {
        let tally = Tally::new();
        (self.handle.router().send(event(id, text), &tally), tally)
    }

    pub(super) fn subscribe(&self, subscriber: &str, subject: &str) {
        self.handle
            .graph()
            .subscribe(&id(subscriber), &id(subject))
            .expect("room in the graph");
    }

    pub(super) fn unsubscribe(&self, subscriber: &str, subject: &str) {
        self.handle
            .graph()
            .unsubscribe(&id(subscriber), &id(subject))
            .expect("the graph answers");
    }

    /// Everything a client was sent, as text.
    pub(super) fn text(&self, client: usize) -> String {
        String::from_utf8_lossy(&self.net.borrow().pipes[client].outbound).into_owned()
    }

    /// The payloads a client was sent, in order.
    pub(super) fn payloads(&self, client: usize) -> Vec<String> {
        let text = self.text(client);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Vec::new();
        };
        let body = if head.contains("chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        let field = |line: &str| {
            let json = line
                .split_once("\"data\":\"")
                .map(|(_, rest)| rest.trim_end_matches("\"}"));
            line.strip_prefix("data: ").or(json).map(str::to_owned)
        };
        if head.contains("text/html") {
            return body
                .split_inclusive(';')
                .filter(|part| part.ends_with(';'))
                .map(last_word)
                .collect();
        }
        // A last line without its end is still on its way.
        body.split_inclusive('\n')
            .filter_map(|line| field(line.strip_suffix('\n')?))
            .collect()
    }

    pub(super) fn is_closed(&self, client: usize) -> bool {
        self.net.borrow().pipes[client].closed
    }

    pub(super) fn metric(&self, metric: Metric) -> u64 {
        self.handle.stats().total(metric)
    }

    /// Nothing is left of any connection.
    pub(super) fn assert_empty(&self) {
        assert_eq!(self.worker.connections.len(), 0, "records");
        assert_eq!(self.handle.router().online(), 0, "ids online");
        for gauge in [
            Metric::Connections,
            Metric::SessionsSse,
            Metric::SessionsNdjson,
            Metric::SessionsTest,
            Metric::BacklogSessions,
            Metric::BacklogBytes,
        ] {
            assert_eq!(self.metric(gauge), 0, "{gauge:?}");
        }
        assert_eq!(self.net.borrow().descriptors, 1_000, "descriptors");
        assert_eq!(self.mailbox.outstanding(), 0, "weight in the mailbox");
    }
}

/// The 2008 wire has no frame: payloads end in a semicolon here, and the welcome in a line break.
fn last_word(part: &str) -> String {
    part.rsplit('\n').next().unwrap_or(part).to_owned()
}

pub(super) fn id(text: &str) -> Id {
    Id::parse(text).expect("a valid id")
}

fn event(subject: &str, text: &str) -> Event {
    Event {
        subject: id(subject),
        event_type: None,
        payload: Payload::text(text.to_owned().into()),
    }
}

/// Chunks put together, up to the first that is not whole.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        let (Some(chunk), true) = (
            rest.get(..size),
            rest[size.min(rest.len())..].starts_with("\r\n"),
        ) else {
            break;
        };
        whole.push_str(chunk);
        body = &rest[size + 2..];
    }
    whole
}
