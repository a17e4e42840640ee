//! Laws of the turn and of the pause of accepting, over a driver in memory and in virtual time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{
    Accepted, Acceptor, Clock, Counters, Driver, EventLoop, Handler, Interest, ListenerOptions,
    Mailbox, MetricSet, RateLimitedWarnings, Received, Sent, Signal, TcpInfo, Tick, Timing, Token,
};
use rustix::io::Errno;

reactor::metrics! {
    /// What the worker of these tests counts.
    enum Metric {
        Counter "accepts" [] "Accepts." { Accepts }
        Counter "accept_pauses" [] "Pauses." { AcceptPauses }
        Time "stage_seconds" ["stage"] "Busy time." {
            StageSignals = "signals", StageAccept = "accept",
        }
    }
}

/// A kernel with one kind of event: connections that wait at listeners. Time passes only while a
/// worker waits.
struct Kernel {
    now: Tick,
    /// A rung mailbox ends a wait.
    mailbox: Arc<Mailbox<u32>>,
    /// Open listeners, each with whether it is paused.
    listeners: Vec<(Token, bool)>,
    waiting: usize,
    descriptors: usize,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            now: Tick::default(),
            mailbox: Arc::new(Mailbox::new(usize::MAX).expect("an eventfd")),
            listeners: Vec::new(),
            waiting: 0,
            descriptors: 0,
        }
    }
}

impl Driver for Kernel {
    type Socket = ();
    type Listener = Token;

    fn elapsed(&self) -> Duration {
        self.now.since(Tick::default())
    }

    fn unix_seconds(&self) -> u64 {
        0
    }

    /// Returns for a signal, for a rung mailbox, or when the time is over.
    fn wait(&mut self, timeout: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()> {
        signals.clear();
        let open = self.listeners.iter().filter(|(_, paused)| !paused);
        let reported = open.filter(|_| self.waiting > 0);
        signals.extend(reported.map(|&(token, _)| Signal {
            token,
            readable: true,
            writable: false,
            ended: false,
        }));
        if signals.is_empty() && self.mailbox.is_asleep() {
            let timeout = timeout.expect("without a deadline nothing ends this wait");
            self.now = self.now.after(timeout);
        }
        Ok(())
    }

    fn listen(&mut self, _: SocketAddr, _: &ListenerOptions, token: Token) -> io::Result<Token> {
        self.listeners.push((token, false));
        Ok(token)
    }

    fn accept(&mut self, _: &Token) -> Accepted<()> {
        if self.waiting == 0 {
            return Accepted::Nobody;
        }
        if self.descriptors == 0 {
            return Accepted::Exhausted(Errno::MFILE);
        }
        self.waiting -= 1;
        self.descriptors -= 1;
        Accepted::Connection((), ADDRESS)
    }

    fn pause_listener(&mut self, listener: &Token, token: Token, paused: bool) {
        assert_eq!(*listener, token);
        let open = self.listeners.iter_mut().find(|open| open.0 == token);
        let open = open.expect("only open listeners are paused");
        assert_ne!(open.1, paused, "pauses and resumes take turns");
        open.1 = paused;
    }

    fn close_listener(&mut self, listener: Token) {
        self.listeners.retain(|open| open.0 != listener);
    }

    fn watch(&mut self, (): &(), _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn watch_writable(&mut self, (): &(), _: Token) -> io::Result<()> {
        Ok(())
    }

    fn recv(&mut self, (): &(), _: &mut [u8]) -> Received {
        Received::Blocked
    }

    fn send(&mut self, (): &(), _: &[&[u8]]) -> Sent {
        Sent::Blocked
    }

    fn shutdown_write(&mut self, (): &()) {}

    fn reset_on_close(&mut self, (): &()) {}

    fn peer(&self, (): &()) -> Option<SocketAddr> {
        None
    }

    fn tcp_info(&mut self, (): &()) -> Option<TcpInfo> {
        None
    }
}

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

const OPTIONS: ListenerOptions = ListenerOptions {
    backlog: 1,
    user_timeout: Duration::ZERO,
    keepalive: None,
    defer_accept: None,
    fast_open: None,
    send_buffer: None,
};

/// A worker that notes what it is asked to do.
struct Worker {
    kernel: Kernel,
    counters: Counters<Metric, { Metric::ALL.len() }>,
    mailbox: Arc<Mailbox<u32>>,
    received: Vec<u32>,
    acceptor: Acceptor<Token>,
    clock: Clock,
    deadline: Option<Tick>,
    work: bool,
    calls: Vec<&'static str>,
    accepted: usize,
}

impl Worker {
    fn new(kernel: Kernel) -> Self {
        let warnings = RateLimitedWarnings::new(Duration::from_secs(1));
        let mut worker = Self {
            clock: Clock::new(&kernel),
            counters: Counters::default(),
            mailbox: Arc::clone(&kernel.mailbox),
            kernel,
            received: Vec::new(),
            acceptor: Acceptor::new(warnings, "raise the limit"),
            deadline: None,
            work: false,
            calls: Vec::new(),
            accepted: 0,
        };
        worker.listen();
        worker
    }

    fn listen(&mut self) {
        let open = self.acceptor.open(&mut self.kernel, (), |kernel, token| {
            kernel.listen(ADDRESS, &OPTIONS, token)
        });
        open.expect("a listener");
    }

    /// Takes a turn as [`EventLoop::run`] does.
    fn turn(&mut self) {
        let mut turns = EventLoop::new(&self.kernel);
        let timeout = turns.prepare(self);
        turns.wait(self, timeout).expect("the kernel answers");
        turns.act(self);
    }
}

impl Handler for Worker {
    type Driver = Kernel;
    type Counters = Counters<Metric, { Metric::ALL.len() }>;

    fn driver(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn counters(&self) -> &Self::Counters {
        &self.counters
    }

    fn may_sleep(&self) -> bool {
        self.mailbox.may_sleep()
    }

    fn wake_up(&self) {
        self.mailbox.wake_up();
    }

    fn has_work(&self) -> bool {
        self.work
    }

    fn next_deadline(&self, now: Tick) -> Option<Duration> {
        let deadline = self.deadline.map(|deadline| deadline.since(now));
        deadline
            .into_iter()
            .chain(self.acceptor.resume_in(now))
            .min()
    }

    fn begin(&mut self, clock: Clock) {
        self.clock = clock;
        self.calls.push("begin");
    }

    fn on_listener(&mut self, id: u32) {
        self.calls.push("listener");
        let now = self.clock.now;
        while let Accepted::Connection(..) =
            self.acceptor
                .accept(&mut self.kernel, &self.counters, now, id)
        {
            self.accepted += 1;
        }
    }

    fn on_signal(&mut self, _: Signal) {
        self.calls.push("signal");
    }

    fn finish(&mut self, _: &mut Timing) {
        self.received.extend(self.mailbox.take());
        let now = self.clock.now;
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.calls.push("deadline");
        }
        self.acceptor.resume_if_due(&mut self.kernel, now);
        self.calls.push("finish");
    }

    fn is_over(&self) -> bool {
        true
    }
}

#[test]
fn a_worker_sleeps_until_its_next_deadline_and_not_while_it_has_work_or_mail() {
    let mut worker = Worker::new(Kernel::default());
    let mut turns = EventLoop::new(&worker.kernel);
    assert_eq!(turns.prepare(&mut worker), None);
    assert!(worker.mailbox.is_asleep());
    worker.deadline = Some(Tick(70));
    assert_eq!(turns.prepare(&mut worker), Some(Duration::from_millis(70)));
    worker.kernel.now = Tick(80);
    assert_eq!(turns.prepare(&mut worker), Some(Duration::ZERO));
    worker.deadline = None;
    worker.work = true;
    assert_eq!(turns.prepare(&mut worker), Some(Duration::ZERO));
    worker.work = false;
    worker.mailbox.wake_up();
    // It comes before the worker announces that it sleeps, so nothing rings.
    worker.mailbox.post(1, 0).expect("room");
    assert_eq!(turns.prepare(&mut worker), Some(Duration::ZERO));
}

#[test]
fn a_sleeping_worker_wakes_for_its_deadline() {
    let mut worker = Worker::new(Kernel::default());
    worker.deadline = Some(Tick(70));
    worker.turn();
    assert_eq!(worker.calls, ["begin", "deadline", "finish"]);
    assert_eq!(worker.clock.now, Tick(70));
}

#[test]
fn a_sleeping_worker_wakes_for_mail_that_is_rung_and_at_once_for_mail_that_came_before() {
    let mut worker = Worker::new(Kernel::default());
    worker.deadline = Some(Tick(70));
    worker.mailbox.post(1, 0).expect("room");
    worker.turn();
    assert_eq!((&*worker.received, worker.clock.now), (&[1][..], Tick(0)));
    let mut turns = EventLoop::new(&worker.kernel);
    let timeout = turns.prepare(&mut worker);
    assert_eq!(timeout, Some(Duration::from_millis(70)));
    worker.mailbox.insert(2);
    turns
        .wait(&mut worker, timeout)
        .expect("the kernel answers");
    turns.act(&mut worker);
    assert_eq!(
        (&*worker.received, worker.clock.now),
        (&[1, 2][..], Tick(0))
    );
}

// A simulated kernel once returned from every wait, and no lost wake-up failed a test.
#[test]
fn mail_that_nobody_rings_for_wakes_nobody() {
    let mut worker = Worker::new(Kernel::default());
    worker.deadline = Some(Tick(70));
    let mut turns = EventLoop::new(&worker.kernel);
    let timeout = turns.prepare(&mut worker);
    worker.mailbox.post(1, 0).expect("room");
    turns
        .wait(&mut worker, timeout)
        .expect("the kernel answers");
    assert_eq!(worker.kernel.now, Tick(70));
}

#[test]
#[should_panic(expected = "nothing ends this wait")]
fn a_wait_without_a_reason_to_end_fails_the_test() {
    Worker::new(Kernel::default()).turn();
}

#[test]
fn a_turn_begins_before_its_signals_and_ends_behind_them() {
    let mut worker = Worker::new(Kernel {
        waiting: 1,
        descriptors: 1,
        now: Tick(5),
        ..Kernel::default()
    });
    worker.turn();
    assert_eq!(worker.calls, ["begin", "listener", "finish"]);
    assert_eq!(worker.clock.now, Tick(5));
    assert!(!worker.mailbox.is_asleep());
    assert_eq!(worker.counters.get(Metric::TURNS), 1);
    assert_eq!(worker.counters.get(Metric::SIGNALS), 1);
}

#[test]
fn accepting_pauses_while_descriptors_have_run_out_and_the_worker_does_not_spin() {
    let mut worker = Worker::new(Kernel {
        waiting: 3,
        descriptors: 1,
        ..Kernel::default()
    });
    worker.turn();
    assert_eq!(worker.accepted, 1);
    assert_eq!(worker.counters.get(Metric::AcceptPauses), 1);
    // A listener that is opened meanwhile pauses too.
    worker.listen();
    assert!(worker.kernel.listeners.iter().all(|&(_, paused)| paused));
    worker.kernel.descriptors = 5;
    worker.calls.clear();
    worker.turn();
    assert_eq!(
        worker.calls,
        ["begin", "finish"],
        "no signal while it pauses"
    );
    assert_eq!(worker.clock.now, Tick(100), "it has slept until then");
    worker.turn();
    assert_eq!(worker.accepted, 3);
    assert_eq!(worker.acceptor.resume_in(Tick(100)), None);
}

#[test]
fn a_connection_that_ends_ends_the_pause() {
    let mut worker = Worker::new(Kernel {
        waiting: 1,
        ..Kernel::default()
    });
    worker.turn();
    assert_eq!(worker.accepted, 0);
    worker.kernel.descriptors = 1;
    worker.acceptor.resume_soon(Tick(0));
    worker.turn();
    worker.turn();
    assert_eq!((worker.accepted, worker.clock.now), (1, Tick(0)));
    assert_eq!(worker.counters.get(Metric::AcceptPauses), 1);
}

#[test]
fn an_acceptor_without_listeners_does_not_pause() {
    let mut worker = Worker::new(Kernel::default());
    worker.acceptor.close(&mut worker.kernel, |_| false);
    let error = io::Error::other("out of memory");
    worker
        .acceptor
        .pause(&mut worker.kernel, &worker.counters, Tick(0), &error);
    assert_eq!(worker.acceptor.resume_in(Tick(0)), None);
    assert!(worker.kernel.listeners.is_empty());
}
