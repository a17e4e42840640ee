//! Test world: one worker, its router, graph and network, and what its clients receive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use auth::UnixSeconds;
use graph::{Graph, Id};
use parking_lot::Mutex;
use reactor::{
    Driver as _, EventLoop, ListenerOptions, Mailbox, RateLimitedWarnings, SourceCounts, Tick,
};
use router::{Accepted, Event, Payload, Router, Tally, WorkerId};

use super::client::{self, TlsClient};
use super::net::{self, Shared as Net, SimDriver};
use crate::identity::IdentityStore;
use crate::listener::{ListenerContext, ListenerKind};
use crate::mail::{Handle, MAILBOX_WEIGHT_MAX, Mail, Post};
use crate::settings::{LiveSettings, Settings};
use crate::shared::Shared;
use crate::stats::{Metric, WorkerStats};
use crate::worker::Worker;

pub(super) struct World {
    pub(super) net: Net,
    pub(super) worker: Worker<SimDriver>,
    pub(super) handle: Handle,
    pub(super) mailbox: Arc<Mailbox<Mail>>,
    /// Protocol of the clients that connect.
    kind: ListenerKind,
    client_config: Arc<rustls::ClientConfig>,
    /// TLS clients, by the numbers of their pipes.
    pub(super) tls: BTreeMap<usize, TlsClient>,
    turns: EventLoop,
    /// The worker sleeps, until this time or for as long as it takes.
    asleep: Option<Option<Tick>>,
}

impl World {
    /// A world whose clients connect to a listener of `kind`. The plain listeners have the numbers
    /// 0 and 2, that for TLS the number 1.
    pub(super) fn new(kind: ListenerKind, live: LiveSettings) -> Self {
        let live = LiveSettings {
            tls: live.tls.or_else(|| Some(client::server_config())),
            ..live
        };
        let settings = Settings {
            live: Arc::new(live),
            ..Settings::default()
        };
        let net = net::network(1_000);
        let mailbox = Arc::new(Mailbox::new(MAILBOX_WEIGHT_MAX).expect("an eventfd"));
        let post = Post(Box::new([Arc::clone(&mailbox)]));
        let router = Arc::new(Router::new("e", Arc::new(Graph::memory()), post));
        let stats = Arc::new(WorkerStats::default());
        let draining = Arc::new(AtomicBool::new(false));
        let demo = Arc::new(OnceLock::new());
        let identity = Arc::new(IdentityStore::default());
        let live = Arc::new(Mutex::new(Arc::clone(&settings.live)));
        let shared = Arc::new(Shared {
            settings,
            router: Arc::clone(&router),
            demo: Arc::clone(&demo),
            connections: AtomicUsize::new(0),
            sources: SourceCounts::default(),
            draining: Arc::clone(&draining),
            tls_warnings: RateLimitedWarnings::new(Duration::from_secs(60)),
            identity: Arc::clone(&identity),
        });
        let driver = SimDriver(Net::clone(&net));
        let handle = Handle {
            external_metrics: Arc::default(),
            router,
            stats: Arc::new([Arc::clone(&stats)]),
            draining,
            demo,
            live,
            identity,
        };
        let warnings = RateLimitedWarnings::new(Duration::from_secs(60));
        let (id, mail) = (WorkerId(0), Arc::clone(&mailbox));
        let mut worker = Worker::new(id, shared, mail, stats, warnings, driver);
        for kind in [ListenerKind::Plain, ListenerKind::Tls, ListenerKind::Plain] {
            let context = ListenerContext { kind };
            worker
                .acceptor
                .open(&mut worker.table.driver, context, |driver, token| {
                    driver.listen(([127, 0, 0, 1], 1).into(), &LISTENER, token)
                })
                .expect("the simulated listener opens");
        }
        Self {
            net,
            turns: EventLoop::new(&worker.table.driver),
            worker,
            handle,
            mailbox,
            kind,
            client_config: client::config(rustls::ALL_VERSIONS),
            tls: BTreeMap::new(),
            asleep: None,
        }
    }

    /// A client that asks for `key` and has room for all it is sent.
    pub(super) fn connect(&mut self, key: &str) -> usize {
        let request = format!("GET {key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.connect_with(request.as_bytes(), usize::MAX, usize::MAX)
    }

    /// A client that says `bytes`, and whose socket takes `room` bytes in all and `bite` at a time.
    /// Over TLS, its handshake has been made, and what it costs does not count.
    pub(super) fn connect_with(&mut self, bytes: &[u8], room: usize, bite: usize) -> usize {
        match self.kind {
            ListenerKind::Plain => self.net.borrow_mut().connect(bytes, room, bite),
            ListenerKind::Tls => {
                let number = self.begin_tls(bytes);
                self.turn();
                let pipe = &mut self.net.borrow_mut().pipes[number];
                (pipe.room, pipe.bite) = (room.saturating_add(TICKETS_BYTES), bite);
                number
            }
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.kind == ListenerKind::Tls
    }

    /// A TLS client that has sent its ClientHello, and says `bytes` when the handshake is done.
    pub(super) fn begin_tls(&mut self, bytes: &[u8]) -> usize {
        let mut client = TlsClient::new(Arc::clone(&self.client_config));
        client.say(bytes);
        let hello = client.output();
        let mut net = self.net.borrow_mut();
        let number = net.connect_to(1, &hello, usize::MAX, usize::MAX);
        self.tls.insert(number, client);
        number
    }

    /// Makes later TLS clients use another configuration.
    pub(super) fn set_client_config(&mut self, config: Arc<rustls::ClientConfig>) {
        self.client_config = config;
    }

    /// A client says something more.
    pub(super) fn say(&mut self, client: usize, bytes: &[u8]) {
        match self.tls.get_mut(&client) {
            None => self.net.borrow_mut().say(client, bytes),
            Some(tls) => {
                tls.say(bytes);
                self.pump();
            }
        }
    }

    /// Lets TLS clients read and answer.
    pub(super) fn pump(&mut self) {
        let network = &mut *self.net.borrow_mut();
        for (&number, client) in &mut self.tls {
            client.pump(network, number);
        }
    }

    /// A client that sends a request for `target`, with these lines of fields.
    pub(super) fn request(&mut self, method: &str, target: &str, fields: &str) -> usize {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        self.net
            .borrow_mut()
            .connect(request.as_bytes(), usize::MAX, usize::MAX)
    }

    /// Lets clients come and go until the next one has the address 127.0.0.1 (0) to 127.0.0.4 (3).
    pub(super) fn next_at_address(&mut self, nth: usize) {
        while self.net.borrow().pipes.len() % 4 != nth {
            let passing = self.net.borrow_mut().connect(b"", usize::MAX, usize::MAX);
            self.net.borrow_mut().end(passing);
        }
        self.turn();
    }

    /// The status that a client was answered with.
    pub(super) fn status(&self, client: usize) -> u16 {
        let text = self.text(client);
        let code = text.get(9..12).and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("a status line: {text}"))
    }

    /// The time by the clock on the wall.
    pub(super) fn time(&self) -> UnixSeconds {
        UnixSeconds(self.worker.table.driver.unix_seconds())
    }

    /// Lets the worker take a turn, if it has a reason to: work of its own, a signal, a deadline or
    /// a rung mailbox. Whatever else changed, a sleeping worker does not learn of it.
    pub(super) fn turn(&mut self) {
        let now = self.net.borrow().now;
        let deadline = *self.asleep.get_or_insert_with(|| {
            let timeout = self.turns.prepare(&mut self.worker);
            timeout.map(|timeout| round_up(now, timeout))
        });
        let wakes = self.net.borrow().has_signals()
            || deadline.is_some_and(|deadline| deadline <= now)
            || !self.mailbox.is_asleep();
        if wakes {
            self.asleep = None;
            self.turns
                .wait(&mut self.worker, Some(Duration::ZERO))
                .expect("the simulated poller does not fail");
            self.turns.act(&mut self.worker);
        }
        self.pump();
    }

    /// Turns until nothing is left to do at this time.
    pub(super) fn run_until_idle(&mut self) {
        for _ in 0..8 {
            self.turn();
            while self.worker.fanout.has_work() {
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

    /// Wakes the worker for a turn in which it has nothing to do: it accounts for its time.
    pub(super) fn wake(&mut self) {
        self.mailbox.ring();
        self.turn();
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
        match self.tls.get(&client) {
            None => String::from_utf8_lossy(&self.net.borrow().pipes[client].outbound).into_owned(),
            Some(tls) => String::from_utf8_lossy(&tls.text).into_owned(),
        }
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

    /// Checks that nothing is left of any connection.
    pub(super) fn assert_empty(&self) {
        assert_eq!(self.worker.table.len(), 0, "records");
        assert_eq!(self.handle.router().online(), 0, "ids online");
        for gauge in [
            Metric::Connections,
            Metric::SessionsSse,
            Metric::SessionsNdjson,
            Metric::SessionsTest,
            Metric::BacklogSessions,
            Metric::BacklogBytes,
            Metric::TlsConnections,
        ] {
            assert_eq!(self.metric(gauge), 0, "{gauge:?}");
        }
        assert_eq!(self.net.borrow().descriptors, 1_000, "descriptors");
        assert_eq!(self.mailbox.outstanding(), 0, "weight in the mailbox");
    }
}

/// Room for the session tickets that a client gets before the answer to its first request.
const TICKETS_BYTES: usize = 1000;

pub(super) const LISTENER: ListenerOptions = ListenerOptions {
    backlog: 1,
    user_timeout: Duration::ZERO,
    keepalive: None,
    defer_accept: None,
    fast_open: None,
};

/// The time at which a wait that begins now is over: a kernel never wakes a worker early.
fn round_up(now: Tick, timeout: Duration) -> Tick {
    now.after(timeout + Duration::from_nanos(999_999))
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
