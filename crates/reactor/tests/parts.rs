//! The parts of the loop, each against a simple model or the real kernel.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test is the peer of the sockets under test, and waits for the kernel"
)]

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{hint, thread};

use proptest::prelude::*;
use reactor::{
    Accepted, Driver, Interest, Keepalive, ListenerOptions, Mailbox, Received, RelayDriver,
    Reservation, SendBuffer, Sent, SharedPoller, Signal, Slab, System, Tick, Token, Wheel,
};

proptest! {
    #[test]
    fn a_slab_finds_a_record_by_its_name_until_it_is_removed(
        steps in prop::collection::vec((any::<bool>(), any::<usize>()), 1..2000)
    ) {
        let mut slab = Slab::default();
        let mut model = BTreeMap::new();
        let mut stale = Vec::new();
        for (number, (insert, pick)) in steps.into_iter().enumerate() {
            if insert || model.is_empty() {
                let name = slab.insert(number);
                prop_assert!(model.insert(name, number).is_none(), "a name is given once");
            } else {
                let name = *model.keys().nth(pick % model.len()).expect("not empty");
                prop_assert_eq!(slab.remove(name), model.remove(&name));
                stale.push(name);
            }
            prop_assert_eq!(slab.len(), model.len());
        }
        for (name, number) in &model {
            prop_assert_eq!(slab.get(*name), Some(number));
        }
        for name in stale {
            prop_assert_eq!(slab.get(name), None);
        }
    }

    #[test]
    fn a_deadline_fires_once_never_early_and_at_most_a_bucket_late(
        deadlines in prop::collection::vec(0_u64..60_000, 1..200),
        steps in prop::collection::vec(1_u64..3_000, 1..100),
    ) {
        let mut wheel = Wheel::default();
        for (number, deadline) in deadlines.iter().enumerate() {
            wheel.add(Tick(*deadline), number);
        }
        let (mut now, mut fired) = (0, HashMap::new());
        for step in steps.into_iter().chain([70_000, 1_000]) {
            now += step;
            let mut due = Vec::new();
            wheel.expire(Tick(now), &mut due);
            for number in due {
                prop_assert!(deadlines[number] <= now, "not early");
                prop_assert!(fired.insert(number, now).is_none(), "once");
            }
            for (number, deadline) in deadlines.iter().enumerate() {
                prop_assert!(fired.contains_key(&number) || deadline + 128 > now, "not late");
            }
        }
        prop_assert_eq!(fired.len(), deadlines.len());
        prop_assert_eq!(wheel.sleep(Tick(now)), None);
    }

    #[test]
    fn a_wheel_never_asks_to_sleep_beyond_a_deadline(
        deadlines in prop::collection::vec(0_u64..100_000, 1..20), now in 0_u64..50_000,
    ) {
        let mut wheel = Wheel::default();
        wheel.expire(Tick(now), &mut Vec::new());
        for deadline in &deadlines {
            wheel.add(Tick(now + deadline), ());
        }
        let sleep = wheel.sleep(Tick(now)).expect("something is pending");
        let first = deadlines.iter().min().expect("not empty");
        prop_assert!(sleep <= Duration::from_millis(first + 128));
    }
}

#[test]
fn a_mailbox_keeps_order_and_refuses_what_passes_its_bound() {
    let mailbox = Mailbox::new(10).expect("an eventfd");
    assert_eq!(mailbox.post("a", 6), Ok(()));
    assert_eq!(mailbox.post("b", 6), Err("b"));
    assert_eq!(mailbox.post("c", 4), Ok(()));
    mailbox.insert("weightless");
    assert_eq!(mailbox.take(), ["a", "c", "weightless"]);
    assert_eq!(mailbox.post("d", 1), Err("d"), "taken is not settled");
    mailbox.release(10);
    assert_eq!(
        mailbox.post("heavier than the bound", 99),
        Ok(()),
        "when nothing is outstanding"
    );
}

// What was refused weighed on a mailbox whose worker had ended: the gauge of what waits grew with
// every event.
#[test]
fn what_a_closed_mailbox_refuses_does_not_weigh() {
    let mailbox = Mailbox::new(10).expect("an eventfd");
    assert_eq!(mailbox.post("a", 6), Ok(()));
    assert_eq!(mailbox.close(), ["a"]);
    mailbox.release(6);
    assert_eq!(mailbox.post("b", 6), Err("b"));
    assert_eq!(mailbox.outstanding(), 0);
}

#[test]
fn no_item_is_left_behind_by_a_worker_that_went_to_sleep() {
    const ITEMS: u32 = 20_000;
    let mailbox = Arc::new(Mailbox::new(usize::MAX).expect("an eventfd"));
    let sender = Arc::clone(&mailbox);
    let thread = std::thread::spawn(move || (0..ITEMS).for_each(|item| sender.insert(item)));
    let mut driver = driver(&mailbox).0;
    let (mut received, mut signals) = (0, Vec::new());
    while received < ITEMS {
        let sleeps = mailbox.may_sleep();
        let timeout = Duration::from_secs(if sleeps { 20 } else { 0 });
        driver.wait(Some(timeout), &mut signals).expect("a poller");
        mailbox.wake_up();
        // Without the bell, the items come with the end of the wait.
        assert!(!sleeps || !signals.is_empty(), "nothing woke the worker");
        for item in mailbox.take() {
            assert_eq!(item, received);
            received += 1;
        }
    }
    thread.join().expect("the sender ends");
}

#[test]
fn a_worker_at_a_shared_poller_is_woken_by_its_own_mail() {
    const ROUNDS: u32 = 3_000;
    const END: u32 = u32::MAX;
    let poller = Arc::new(SharedPoller::new(3).expect("a poller"));
    let mailbox = || Arc::new(Mailbox::new(usize::MAX).expect("an eventfd"));
    let mailboxes = [mailbox(), mailbox(), mailbox()];
    let (sender, receiver) = mpsc::channel();
    let work = |seat: usize| {
        let (poller, mailbox) = (Arc::clone(&poller), Arc::clone(&mailboxes[seat]));
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut driver = System::sharing(poller, seat, mailbox.as_ref()).expect("a seat");
            let mut signals = Vec::new();
            loop {
                let timeout = (!mailbox.may_sleep()).then_some(Duration::ZERO);
                driver.wait(timeout, &mut signals).expect("a poller");
                mailbox.wake_up();
                for item in mailbox.take() {
                    if item == END {
                        return;
                    }
                    sender.send((seat, item)).expect("the receiver exists");
                }
            }
        })
    };
    let threads = [work(0), work(1), work(2)];
    for round in 0..ROUNDS {
        let seat = round as usize % 3;
        mailboxes[seat].insert(round);
        let answer = receiver.recv_timeout(Duration::from_secs(20));
        assert_eq!(
            answer,
            Ok((seat, round)),
            "no worker sleeps through its mail"
        );
    }
    for (mailbox, thread) in mailboxes.iter().zip(threads) {
        mailbox.insert(END);
        thread.join().expect("it ends");
    }
}

const OPTIONS: ListenerOptions = ListenerOptions {
    backlog: 16,
    user_timeout: Duration::from_secs(30),
    keepalive: Some(Keepalive {
        idle: Duration::from_secs(15),
        interval: Duration::from_secs(5),
    }),
    defer_accept: None,
    fast_open: None,
    send_buffer: None,
};

const LISTENER: Token = Token::listener(5);

fn driver(mailbox: &Mailbox<u32>) -> (System, OwnedFd, SocketAddr) {
    let reservation = Reservation::claim("127.0.0.1:0".parse().expect("valid")).expect("a port");
    let address = reservation.address();
    let mut driver = System::new(mailbox).expect("a poller");
    let listener = driver.listen(address, &OPTIONS, LISTENER);
    (driver, listener.expect("a listener"), address)
}

fn until(driver: &mut System, wanted: impl Fn(&Signal) -> bool) -> Signal {
    let mut signals = Vec::new();
    for _ in 0..100 {
        driver
            .wait(Some(Duration::from_secs(1)), &mut signals)
            .expect("a poller");
        if let Some(signal) = signals.iter().find(|signal| wanted(signal)) {
            return *signal;
        }
    }
    panic!("no such signal");
}

#[test]
fn the_kernel_is_reported_as_it_is() {
    let mailbox = Mailbox::new(1).expect("an eventfd");
    let (mut driver, listener, address) = driver(&mailbox);
    assert!(matches!(driver.accept(&listener), Accepted::Nobody));
    let mut client = TcpStream::connect(address).expect("a connection");
    until(&mut driver, |signal| signal.token == LISTENER);
    let Accepted::Connection(socket, peer) = driver.accept(&listener) else {
        panic!("a connection waits")
    };
    assert_eq!(peer, client.local_addr().expect("connected"));
    assert_eq!(driver.peer(&socket), Some(peer));

    driver
        .watch(&socket, Token::tagged_number(0, 7), Interest::Readable)
        .expect("room for a watch");
    let mut block = [0; 16];
    assert_eq!(driver.recv(&socket, &mut block), Received::Blocked);
    client.write_all(b"hello").expect("a connection");
    until(&mut driver, |signal| {
        signal.token == Token::tagged_number(0, 7) && signal.readable
    });
    assert_eq!(driver.recv(&socket, &mut block), Received::Bytes(5));

    assert_eq!(
        driver.send(&socket, &[b"one ", b"two ", b"three"]),
        Sent::Bytes(13)
    );
    let mut answer = [0; 13];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"one two three");
    // An acknowledgement may come later than what it acknowledges is read.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let metrics = driver
            .tcp_info(&socket)
            .expect("the kernel knows its socket");
        if (metrics.acknowledged, metrics.unacknowledged) == (13, 0) {
            break;
        }
        assert!(Instant::now() < deadline, "{metrics:?}");
    }

    let bulk = vec![0; 1 << 20];
    while let Sent::Bytes(_) = driver.send(&socket, &[&bulk]) {}
    assert_eq!(driver.send(&socket, &[&bulk]), Sent::Blocked);
    assert!(driver.tcp_info(&socket).expect("as before").unacknowledged > 0);

    drop(client);
    let signal = until(&mut driver, |signal| {
        signal.token == Token::tagged_number(0, 7) && signal.ended
    });
    assert!(signal.readable, "an end is something to read");
    assert!(matches!(
        driver.recv(&socket, &mut block),
        Received::Ended | Received::Failed(_)
    ));
}

/// Connects a client, and accepts and watches its connection.
fn connection(
    driver: &mut System,
    listener: &OwnedFd,
    address: SocketAddr,
    token: Token,
) -> (TcpStream, OwnedFd) {
    let client = TcpStream::connect(address).expect("a connection");
    until(driver, |signal| signal.token == LISTENER);
    let Accepted::Connection(socket, _) = driver.accept(listener) else {
        panic!("a connection waits")
    };
    let watched = driver.watch(&socket, token, Interest::ReadableAndWritable);
    watched.expect("room for a watch");
    (client, socket)
}

#[test]
fn a_pause_of_input_hides_bytes_until_it_ends_and_never_the_end_of_the_connection() {
    let mailbox = Mailbox::new(1).expect("an eventfd");
    let (mut driver, listener, address) = driver(&mailbox);
    let token = Token::tagged_number(0, 7);
    let (mut client, socket) = connection(&mut driver, &listener, address, token);
    let paused = driver.pause_input(&socket, token, false, true);
    paused.expect("the kernel has memory");
    client.write_all(b"hello").expect("a connection");
    // Loopback delivers in order: a client that connects later is reported, and the bytes are not.
    let another = TcpStream::connect(address).expect("a connection");
    let mut signals = Vec::new();
    let wait = driver.wait(Some(Duration::from_secs(60)), &mut signals);
    wait.expect("a poller");
    let tokens: Vec<Token> = signals.iter().map(|signal| signal.token).collect();
    assert_eq!(tokens, [LISTENER]);
    drop(driver.accept(&listener));

    let resumed = driver.pause_input(&socket, token, false, false);
    resumed.expect("the kernel has memory");
    until(&mut driver, |signal| {
        signal.token == token && signal.readable
    });
    assert_eq!(driver.recv(&socket, &mut [0; 16]), Received::Bytes(5));

    let paused = driver.pause_input(&socket, token, false, true);
    paused.expect("the kernel has memory");
    drop((client, another));
    until(&mut driver, |signal| signal.token == token && signal.ended);
}

#[test]
fn a_signal_reports_room_after_a_pipe_was_poured_in_part() {
    let mailbox = Mailbox::new(1).expect("an eventfd");
    let (mut driver, listener, address) = driver(&mailbox);
    let tokens = [7, 8].map(|number| Token::tagged_number(0, number));
    let (mut client, source) = connection(&mut driver, &listener, address, tokens[0]);
    let (mut reader, sink) = connection(&mut driver, &listener, address, tokens[1]);
    let writer = thread::spawn(move || while client.write_all(&[7; 1 << 16]).is_ok() {});
    let pipe = driver.pipe().expect("a pipe");
    let mut signals = Vec::new();
    loop {
        let filled = match driver.fill(&pipe, &source) {
            Received::Bytes(count) => count,
            Received::Blocked => {
                let wait = driver.wait(Some(Duration::from_secs(60)), &mut signals);
                wait.expect("a poller");
                continue;
            }
            other => panic!("{other:?}"),
        };
        let poured = driver.pour(&pipe, &sink, filled);
        if poured != Sent::Bytes(filled) {
            assert!(matches!(poured, Sent::Bytes(_) | Sent::Blocked));
            break;
        }
    }
    // Earlier signals are not the one that is awaited.
    let is_room = |signal: &Signal| signal.token == tokens[1] && signal.writable;
    while {
        let wait = driver.wait(Some(Duration::ZERO), &mut signals);
        wait.expect("a poller");
        signals.iter().any(is_room)
    } {}
    let reader = thread::spawn(move || {
        let mut block = vec![0; 1 << 20];
        while reader.read(&mut block).is_ok_and(|count| count > 0) {}
    });
    until(&mut driver, is_room);
    drop((source, sink));
    for thread in [writer, reader] {
        thread.join().expect("it ends with its connection");
    }
}

#[test]
fn a_bounded_socket_is_full_soon_and_takes_everything_from_a_peer_that_reads() {
    let mailbox: Mailbox<u32> = Mailbox::new(1).expect("an eventfd");
    let reservation = Reservation::claim("127.0.0.1:0".parse().expect("valid")).expect("a port");
    let mut driver = System::new(&mailbox).expect("a poller");
    let options = ListenerOptions {
        send_buffer: Some(SendBuffer {
            bytes: 128 << 10,
            unsent: 16 << 10,
        }),
        ..OPTIONS
    };
    let address = reservation.address();
    let listener = driver.listen(address, &options, LISTENER);
    let listener = listener.expect("a listener");
    let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let mut client = client.expect("a socket");
    // What the peer's kernel keeps is small and the same in both ways of sending.
    client.set_recv_buffer_size(4096).expect("a socket");
    client.connect(&address.into()).expect("a connection");
    until(&mut driver, |signal| signal.token == LISTENER);
    let Accepted::Connection(socket, _) = driver.accept(&listener) else {
        panic!("a connection waits")
    };
    let token = Token::tagged_number(0, 7);
    let watched = driver.watch(&socket, token, Interest::ReadableAndWritable);
    watched.expect("room for a watch");
    let bulk = vec![0; 1 << 20];
    let mut taken = 0;
    while let Sent::Bytes(count) = driver.send(&socket, &[&bulk]) {
        taken += count;
    }
    assert!(taken < 96 << 10, "the socket took {taken} bytes");

    let mut left = bulk.len();
    let mut block = vec![0; 64 << 10];
    while left > 0 {
        match driver.send(&socket, &[&bulk[..left]]) {
            Sent::Bytes(count) => left -= count,
            Sent::Blocked => {
                assert_ne!(client.read(&mut block).expect("a connection"), 0);
                let mut signals = Vec::new();
                let wait = driver.wait(Some(Duration::from_millis(1)), &mut signals);
                wait.expect("a poller");
            }
            Sent::Failed(errno) => panic!("{errno}"),
        }
    }
}

#[test]
fn a_port_in_use_is_not_shared() {
    let first = Reservation::claim("127.0.0.1:0".parse().expect("valid")).expect("a port");
    let _one = reactor::listen(first.address(), &OPTIONS).expect("a listener");
    let _two = reactor::listen(first.address(), &OPTIONS).expect("another worker's listener");
    let error = Reservation::claim(first.address()).expect_err("the port is taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn a_private_table_hides_its_descriptors_from_the_process() {
    // Other tests open and close what they like meanwhile: a pipe is known by its own number.
    let holds = |table: &str, name: &Path| {
        std::fs::read_dir(table)
            .expect("procfs")
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .any(|found| found == name)
    };
    let thread = reactor::spawn("private".into(), true, move |table| {
        table.expect("may leave the table");
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let path = format!("/proc/thread-self/fd/{}", reader.as_raw_fd());
        let name = std::fs::read_link(path).expect("its name");
        (
            holds("/proc/thread-self/fd", &name),
            holds("/proc/self/fd", &name),
        )
    });
    let held = thread.expect("a thread").join().expect("it ends");
    assert_eq!(held, (true, false), "by the thread, and not by the process");
}

// A worker that looks at its mail before it announces its sleep misses what comes in between.
#[test]
fn mail_that_comes_while_its_worker_falls_asleep_wakes_it() {
    const ROUNDS: u32 = 100_000;
    let mailbox = Mailbox::new(usize::MAX).unwrap();
    let (begun, posted) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut asleep_with_mail = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                until_reaches(&begun, round);
                mailbox.insert(round);
                posted.store(round, Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            begun.store(round, Ordering::Release);
            // Both come to the mailbox at about the same time, in any order.
            (0..round % 64).for_each(|_| hint::spin_loop());
            let may_sleep = mailbox.may_sleep();
            until_reaches(&posted, round);
            asleep_with_mail += u32::from(may_sleep && mailbox.is_asleep());
            mailbox.wake_up();
            assert_eq!(mailbox.take(), [round]);
        }
    });
    assert_eq!(asleep_with_mail, 0, "of {ROUNDS}");
}

/// Waits for another thread to count so far.
fn until_reaches(count: &AtomicU32, wanted: u32) {
    let mut spins = 0_u32;
    while count.load(Ordering::Acquire) < wanted {
        spins += 1;
        // It may need this core.
        match spins % 128 {
            0 => thread::yield_now(),
            _ => hint::spin_loop(),
        }
    }
}
