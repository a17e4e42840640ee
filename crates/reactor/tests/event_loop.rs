//! Laws of the turn and of the pause of accepting, over a driver in memory and in virtual time.

use std::cell::RefMut;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{
    Accepted, Acceptor, Clock, Counters, Driver, EventLoop, Handler, Mailbox, MetricSet,
    RateLimitedWarnings, Signal, Tick, Timing,
};
use simulated::SimDriver;
use simulated::network::{LISTENER, Network, Socket, network};

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

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// A worker that notes what it is asked to do.
struct Worker {
    kernel: SimDriver,
    counters: Counters<Metric, { Metric::ALL.len() }>,
    mailbox: Arc<Mailbox<u32>>,
    received: Vec<u32>,
    acceptor: Acceptor<usize>,
    clock: Clock,
    deadline: Option<Tick>,
    work: bool,
    calls: Vec<&'static str>,
    accepted: Vec<Socket>,
}

impl Worker {
    /// Makes a worker with so many descriptors left, and a listener where so many clients wait.
    fn new(waiting: usize, descriptors: usize) -> Self {
        let mailbox = Arc::new(Mailbox::new(usize::MAX).expect("an eventfd"));
        let kernel = SimDriver(network(descriptors));
        let rung = Arc::clone(&mailbox);
        kernel.0.borrow_mut().wakes = Some(Box::new(move || !rung.is_asleep()));
        let warnings = RateLimitedWarnings::new(Duration::from_secs(1));
        let mut worker = Self {
            clock: Clock::new(&kernel),
            counters: Counters::default(),
            mailbox,
            kernel,
            received: Vec::new(),
            acceptor: Acceptor::new(warnings, "raise the limit"),
            deadline: None,
            work: false,
            calls: Vec::new(),
            accepted: Vec::new(),
        };
        worker.listen();
        for _ in 0..waiting {
            worker.network().connect(b"", 0, 0);
        }
        worker
    }

    fn network(&self) -> RefMut<'_, Network> {
        self.kernel.0.borrow_mut()
    }

    fn listen(&mut self) {
        let open = self.acceptor.open(&mut self.kernel, (), |kernel, token| {
            kernel.listen(ADDRESS, &LISTENER, token)
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
    type Driver = SimDriver;
    type Counters = Counters<Metric, { Metric::ALL.len() }>;

    fn driver(&mut self) -> &mut SimDriver {
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
        while let Accepted::Connection(socket, _) =
            self.acceptor
                .accept(&mut self.kernel, &self.counters, now, id)
        {
            self.accepted.push(socket);
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
    let mut worker = Worker::new(0, 0);
    let mut turns = EventLoop::new(&worker.kernel);
    assert_eq!(turns.prepare(&mut worker), None);
    assert!(worker.mailbox.is_asleep());
    worker.deadline = Some(Tick(70));
    assert_eq!(turns.prepare(&mut worker), Some(Duration::from_millis(70)));
    worker.network().now = Tick(80);
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
    let mut worker = Worker::new(0, 0);
    worker.deadline = Some(Tick(70));
    worker.turn();
    assert_eq!(worker.calls, ["begin", "deadline", "finish"]);
    assert_eq!(worker.clock.now, Tick(70));
}

#[test]
fn a_sleeping_worker_wakes_for_mail_that_is_rung_and_at_once_for_mail_that_came_before() {
    let mut worker = Worker::new(0, 0);
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
    let mut worker = Worker::new(0, 0);
    worker.deadline = Some(Tick(70));
    let mut turns = EventLoop::new(&worker.kernel);
    let timeout = turns.prepare(&mut worker);
    worker.mailbox.post(1, 0).expect("room");
    turns
        .wait(&mut worker, timeout)
        .expect("the kernel answers");
    assert_eq!(worker.network().now, Tick(70));
}

#[test]
#[should_panic(expected = "nothing ends this wait")]
fn a_wait_without_a_reason_to_end_fails_the_test() {
    Worker::new(0, 0).turn();
}

#[test]
fn a_turn_begins_before_its_signals_and_ends_behind_them() {
    let mut worker = Worker::new(1, 1);
    worker.network().now = Tick(5);
    worker.turn();
    assert_eq!(worker.calls, ["begin", "listener", "finish"]);
    assert_eq!(worker.clock.now, Tick(5));
    assert!(!worker.mailbox.is_asleep());
    assert_eq!(worker.counters.get(Metric::TURNS), 1);
    assert_eq!(worker.counters.get(Metric::SIGNALS), 1);
}

#[test]
fn accepting_pauses_while_descriptors_have_run_out_and_the_worker_does_not_spin() {
    let mut worker = Worker::new(3, 1);
    worker.turn();
    assert_eq!(worker.accepted.len(), 1);
    assert_eq!(worker.counters.get(Metric::AcceptPauses), 1);
    // A listener that is opened meanwhile pauses too.
    worker.listen();
    assert!(worker.network().is_paused());
    worker.network().descriptors = 5;
    worker.calls.clear();
    worker.turn();
    assert_eq!(
        worker.calls,
        ["begin", "finish"],
        "no signal while it pauses"
    );
    assert_eq!(worker.clock.now, Tick(100), "it has slept until then");
    worker.turn();
    assert_eq!(worker.accepted.len(), 3);
    assert_eq!(worker.acceptor.resume_in(Tick(100)), None);
}

#[test]
fn a_connection_that_ends_ends_the_pause() {
    let mut worker = Worker::new(1, 0);
    worker.turn();
    assert_eq!(worker.accepted.len(), 0);
    worker.network().descriptors = 1;
    worker.acceptor.resume_soon(Tick(0));
    worker.turn();
    worker.turn();
    assert_eq!((worker.accepted.len(), worker.clock.now), (1, Tick(0)));
    assert_eq!(worker.counters.get(Metric::AcceptPauses), 1);
}

#[test]
fn an_acceptor_without_listeners_does_not_pause() {
    let mut worker = Worker::new(0, 0);
    worker.acceptor.close(&mut worker.kernel, |_| false);
    let error = io::Error::other("out of memory");
    worker
        .acceptor
        .pause(&mut worker.kernel, &worker.counters, Tick(0), &error);
    assert_eq!(worker.acceptor.resume_in(Tick(0)), None);
    assert!(!worker.network().is_listening());
}
