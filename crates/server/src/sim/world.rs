//! Test world: one worker, its router, graph and network, and what its clients receive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::presence::Millis;
use auth::UnixSeconds;
use history::{Limits, Reach};
use reactor::{Driver as _, Mailbox};
use router::{Accepted, Router, Tally};
use simulated::network::SharedNetwork as Net;
use simulated::{SimDriver, Turns};

use super::client::{self, TlsClient};
use super::parts::{
    Parts, assert_budget_is_true, assert_nothing_is_left, assert_nothing_shared_is_left, left,
    worker,
};
use super::texts::payloads;
pub(super) use super::texts::{event, id, unchunked};
use crate::access_log::AccessLog;
use crate::handle::Handle;
use crate::listener::ListenerKind;
use crate::mail::Mail;
use crate::observer::Observer;
use crate::post::{MAILBOX_WEIGHT_MAX, Post};
use crate::settings::PresenceSettings;
use crate::settings::{LiveSettings, Settings};
use crate::shared::Shared;
use crate::stage::Stage as _;
use crate::stats::Metric;
use crate::worker::Worker;

pub(super) struct World {
    pub(super) net: Net,
    pub(super) worker: Worker<SimDriver>,
    pub(super) handle: Handle,
    pub(super) mailbox: Arc<Mailbox<Mail>>,
    /// Mailbox of a second worker, which does not run.
    pub(super) beside: Arc<Mailbox<Mail>>,
    pub(super) shared: Arc<Shared>,
    /// Clock of publishers. It is set when one publishes.
    clock: Arc<AtomicU64>,
    /// Protocol of the clients that connect.
    kind: ListenerKind,
    client_config: Arc<rustls::ClientConfig>,
    /// TLS clients, by the numbers of their pipes.
    pub(super) tls: BTreeMap<usize, TlsClient>,
    turns: Turns,
}

impl World {
    /// A world whose clients connect to a listener of `kind`. The plain listeners have the numbers
    /// 0 and 2, that for TLS the number 1.
    pub(super) fn new(kind: ListenerKind, live: LiveSettings) -> Self {
        Self::with(kind, live, |_| {}, |router| router)
    }

    /// A world whose server keeps a history.
    pub(super) fn with_history(kind: ListenerKind, live: LiveSettings, limits: Limits) -> Self {
        let prepare = |router: Router<Post>| router.with_history(limits);
        Self::with(kind, live, |_| {}, prepare)
    }

    /// A world whose server keeps a history, and whose sessions are observed.
    pub(super) fn with_observer(live: LiveSettings, limits: Limits, observer: Observer) -> Self {
        Self::with_settings(live, limits, |settings| settings.observer = Some(observer))
    }

    /// A world whose server keeps a history, with other settings.
    pub(super) fn with_settings(
        live: LiveSettings,
        limits: Limits,
        set: impl FnOnce(&mut Settings),
    ) -> Self {
        let prepare = |router: Router<Post>| router.with_history(limits);
        Self::with(ListenerKind::Plain, live, set, prepare)
    }

    /// A world whose server keeps who is online, and a history.
    pub(super) fn with_presence(kind: ListenerKind, presence: PresenceSettings) -> Self {
        let limits = Limits {
            bytes: 1 << 20,
            age_seconds: None,
        };
        let live = LiveSettings {
            heartbeat: Duration::ZERO,
            ..LiveSettings::default()
        };
        let set = |settings: &mut Settings| settings.presence = Some(presence);
        let prepare = |router: Router<Post>| router.with_history(limits).with_moves();
        Self::with(kind, live, set, prepare)
    }

    /// A world whose server has an access log.
    pub(super) fn with_access_log(kind: ListenerKind, live: LiveSettings, log: AccessLog) -> Self {
        let set = |settings: &mut Settings| settings.access_log = Some(log);
        Self::with(kind, live, set, |router| router)
    }

    fn with(
        kind: ListenerKind,
        live: LiveSettings,
        set: impl FnOnce(&mut Settings),
        prepare: impl FnOnce(Router<Post>) -> Router<Post>,
    ) -> Self {
        let live = LiveSettings {
            tls: live.tls.or_else(|| Some(client::server_config())),
            ..live
        };
        let Parts {
            shared,
            handle,
            mailboxes,
            clock,
        } = Parts::new(2, live, set, prepare);
        let (mailbox, beside) = (Arc::clone(&mailboxes[0]), Arc::clone(&mailboxes[1]));
        drop(beside.close());
        let kinds = [ListenerKind::Plain, ListenerKind::Tls, ListenerKind::Plain];
        let mut worker = worker(0, &shared, &kinds);
        let net = Net::clone(&worker.table.driver.0);
        clock.store(
            worker.table.driver.elapsed().as_nanos() as u64,
            Ordering::Relaxed,
        );
        Self {
            net,
            turns: Turns::new(&mut worker),
            worker,
            handle,
            mailbox,
            beside,
            shared,
            clock,
            kind,
            client_config: client::config(rustls::ALL_VERSIONS),
            tls: BTreeMap::new(),
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
                let peer = &mut self.net.borrow_mut().peers[number];
                (peer.room, peer.bite) = (room.saturating_add(TICKETS_BYTES), bite);
                number
            }
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.kind == ListenerKind::Tls
    }

    /// A TLS client that has sent its ClientHello, and says `bytes` when the handshake is done.
    pub(super) fn begin_tls(&mut self, bytes: &[u8]) -> usize {
        self.begin_tls_behind(b"", bytes)
    }

    /// A connection whose first bytes are `header`, and then those of a client that says `bytes`.
    pub(super) fn connect_behind(&mut self, header: &[u8], bytes: &[u8]) -> usize {
        match self.kind {
            ListenerKind::Plain => {
                let bytes = [header, bytes].concat();
                self.net
                    .borrow_mut()
                    .connect(&bytes, usize::MAX, usize::MAX)
            }
            ListenerKind::Tls => self.begin_tls_behind(header, bytes),
        }
    }

    fn begin_tls_behind(&mut self, header: &[u8], bytes: &[u8]) -> usize {
        let mut client = TlsClient::new(Arc::clone(&self.client_config));
        client.say(bytes);
        let first = [header, &client.output()].concat();
        let mut net = self.net.borrow_mut();
        let number = net.connect_to(1, &first, usize::MAX, usize::MAX);
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
        while self.net.borrow().peers.len() % 4 != nth {
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

    /// Lets the worker take a turn, if it has a reason to.
    pub(super) fn turn(&mut self) {
        self.turns.take(&mut self.worker, &self.mailbox);
        assert_budget_is_true(&self.shared.budget, 0, &self.worker);
        self.pump();
    }

    /// Lets time pass for the presence thread too.
    pub(super) fn pass_with_presence(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.run_until_idle();
            self.net.borrow_mut().pass(Duration::from_millis(100));
            let now = self.net.borrow().now;
            self.handle.tick_presence(Millis(now.0));
            self.run_until_idle();
        }
    }

    /// Turns until nothing is left to do at this time.
    pub(super) fn run_until_idle(&mut self) {
        for _ in 0..8 {
            self.turn();
            while self.worker.fanout.has_work()
                || self.worker.sessions.replays.ready() > 0
                || self.worker.largest.has_work()
                || self.worker.largest_input.has_work()
                || self.worker.presence.has_work()
            {
                self.turn();
            }
        }
    }

    /// Lets time pass in steps of a tenth of a second, with a turn each.
    pub(super) fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.net.borrow_mut().pass(Duration::from_millis(100));
            self.turn();
        }
    }

    /// Wakes the worker for a turn in which it has nothing to do: it accounts for its time.
    pub(super) fn wake(&mut self) {
        self.mailbox.ring();
        self.turn();
    }

    pub(super) fn publish(&self, subject: &str, text: &str) -> (Accepted, Arc<Tally>) {
        let now = self.worker.table.driver.elapsed().as_nanos() as u64;
        self.clock.store(now, Ordering::Relaxed);
        let tally = Tally::new();
        let accepted = self.handle.router().publish(event(subject, text), &tally);
        (accepted, tally)
    }

    /// Publishes an event that the history does not store.
    pub(super) fn publish_unstored(&self, subject: &str, text: &str) -> (Accepted, Arc<Tally>) {
        let tally = Tally::new();
        let (event, reach) = (event(subject, text), Reach::Subscribers);
        let accepted = self.handle.router().deliver(event, reach, false, &tally);
        (accepted, tally)
    }

    pub(super) fn send(&self, id: &str, text: &str) -> (Accepted, Arc<Tally>) {
        let tally = Tally::new();
        (self.handle.router().send(event(id, text), &tally), tally)
    }

    /// Does something while the worker's mailbox is full.
    pub(super) fn while_full<T>(&self, act: impl FnOnce(&Self) -> T) -> T {
        Self::fill(&self.mailbox, || act(self))
    }

    /// Does something while a mailbox is full.
    pub(super) fn fill<T>(mailbox: &Mailbox<Mail>, act: impl FnOnce() -> T) -> T {
        // As much more is outstanding as the mailbox may hold, without anything in it.
        mailbox.hold(MAILBOX_WEIGHT_MAX);
        let done = act();
        mailbox.release(MAILBOX_WEIGHT_MAX);
        done
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

    /// Everything a client was sent.
    pub(super) fn bytes(&self, client: usize) -> Vec<u8> {
        match self.tls.get(&client) {
            None => self.net.borrow().peers[client].outbound.clone(),
            Some(tls) => tls.text.clone(),
        }
    }

    /// Returns the last reconnect delay that a client was told, in milliseconds.
    pub(super) fn reconnect_delay(&self, client: usize) -> u64 {
        let text = self.text(client);
        let (_, delay) = text.rsplit_once("retry: ").expect("a delay");
        let (delay, _) = delay.split_once('\n').expect("a whole line");
        delay.parse().expect("a number")
    }

    /// Everything a client was sent, as text.
    pub(super) fn text(&self, client: usize) -> String {
        String::from_utf8_lossy(&self.bytes(client)).into_owned()
    }

    /// The payloads a client was sent, in order.
    pub(super) fn payloads(&self, client: usize) -> Vec<String> {
        payloads(&self.text(client))
    }

    pub(super) fn is_closed(&self, client: usize) -> bool {
        self.net.borrow().peers[client].closed
    }

    /// Position up to which events have left the history.
    pub(super) fn left(&self) -> u64 {
        left(&self.handle)
    }

    pub(super) fn metric(&self, metric: Metric) -> u64 {
        self.handle.stats().total(metric)
    }

    /// Checks that nothing is left of any connection.
    pub(super) fn assert_empty(&self) {
        assert_nothing_shared_is_left(&self.shared, &self.handle);
        assert_nothing_is_left(&self.worker, &self.mailbox);
    }
}

/// Room for the session tickets that a client gets before the answer to its first request.
const TICKETS_BYTES: usize = 1000;
