//! Single stories, each a promise that a client or an operator relies on.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake};
use std::time::Duration;

use super::world::World;
use crate::mail::{Handle, SessionReport};
use crate::settings::Settings;
use crate::stats::Figure;

fn world() -> World {
    World::new(Settings::default())
}

#[test]
fn a_reader_that_does_not_read_is_cut_after_the_stall_timeout_and_named() {
    let mut world = world();
    let client = world.connect("/events/sleeper");
    world.turn();
    world.net.borrow_mut().pipes[client].room = 10;
    let (_, tally) = world.publish("sleeper", "wake up");
    world.turn();
    assert_eq!(tally.counts().queued, 1);
    world.pass(Duration::from_secs(9));
    assert!(!world.is_closed(client));
    world.pass(Duration::from_secs(2));
    assert!(world.is_closed(client));
    assert_eq!(world.figure(Figure::ClosedSlow), 1);
    assert_eq!(
        world.handle.stats().slow,
        [(super::world::id("sleeper"), 1)]
    );
    world.assert_empty();
}

#[test]
fn a_reader_that_is_owed_too_much_is_cut_at_once_and_the_receipt_says_so() {
    let mut world = World::new(Settings {
        backlog_bytes: 1000,
        ..Settings::default()
    });
    let client = world.connect("/stream/7");
    world.turn();
    world.net.borrow_mut().pipes[client].room = 0;
    let tallies: Vec<_> = (0..4)
        .map(|_| world.publish("7", &"x".repeat(300)).1)
        .collect();
    world.settle();
    let counts: Vec<_> = tallies.iter().map(|tally| tally.counts()).collect();
    assert_eq!(counts.iter().map(|counts| counts.queued).sum::<u64>(), 2);
    assert_eq!(counts.iter().map(|counts| counts.shed).sum::<u64>(), 2);
    assert!(world.is_closed(client));
    world.assert_empty();
}

#[test]
fn what_a_session_is_owed_in_one_turn_leaves_in_one_system_call() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.turn();
    let before = world.net.borrow().sends;
    for text in ["a", "b", "c"] {
        world.publish("1", text);
    }
    world.turn();
    assert_eq!(world.net.borrow().sends - before, 1);
    assert_eq!(world.payloads(client), ["a", "b", "c"]);
}

#[test]
fn an_event_in_flight_to_a_session_that_died_is_shed_and_meets_no_stranger() {
    let mut world = world();
    let old = world.connect("/events/1");
    world.turn();
    let (_, tally) = world.publish("1", "secret");
    // The session ends and another takes its slot, all before the event has its turn.
    let targets = world.handle.router().sessions(&super::world::id("1"));
    world.net.borrow_mut().break_off(old);
    let stolen = world.mailbox.take();
    world.turn();
    let new = world.connect("/events/2");
    world.turn();
    assert_eq!(world.worker.connections.len(), 1);
    for mail in stolen {
        world.mailbox.insert(mail);
    }
    world.turn();
    assert_eq!(targets.len(), 1);
    assert_eq!(world.payloads(new), [""; 0]);
    assert_eq!(tally.counts().shed, 1);
}

#[test]
fn heartbeats_come_once_in_every_period_and_spread_over_it() {
    let mut world = world();
    let clients: Vec<_> = (0..200)
        .map(|n| world.connect(&format!("/events/{n}")))
        .collect();
    world.settle();
    let beats = |world: &World| -> Vec<usize> {
        clients
            .iter()
            .map(|&client| world.text(client).matches("2\r\n:\n\r\n").count())
            .collect()
    };
    world.pass(Duration::from_secs(30));
    let before = beats(&world);
    assert!(
        before.iter().all(|&beats| beats > 0),
        "the first after a period and a fifth at most"
    );
    let mut busiest = 0;
    for _ in 0..250 {
        let so_far = world.figure(Figure::Heartbeats);
        world.pass(Duration::from_millis(100));
        busiest = busiest.max(world.figure(Figure::Heartbeats) - so_far);
    }
    for (before, after) in before.iter().zip(beats(&world)) {
        assert_eq!(after - before, 1, "in 25 seconds");
    }
    assert!(busiest <= 4, "{busiest} at once");
}

#[test]
fn a_head_that_dawdles_is_answered_408_and_silence_is_closed() {
    let mut world = world();
    let slow = world
        .net
        .borrow_mut()
        .connect(b"GET /events/1 HT", usize::MAX, usize::MAX);
    let silent = world.net.borrow_mut().connect(b"", usize::MAX, usize::MAX);
    world.pass(Duration::from_secs(9));
    assert!(!world.is_closed(silent));
    world.pass(Duration::from_secs(2));
    assert!(world.text(slow).starts_with("HTTP/1.1 408 "));
    assert!(world.is_closed(silent));
    world.pass(Duration::from_secs(3));
    assert!(world.is_closed(slow));
    world.assert_empty();
}

#[test]
fn a_head_may_arrive_a_byte_at_a_time() {
    let mut world = world();
    let client = world.net.borrow_mut().connect(b"", usize::MAX, usize::MAX);
    for byte in b"GET /stream/9 HTTP/1.1\r\nHost: a\r\n\r\n" {
        world.net.borrow_mut().say(client, &[*byte]);
        world.turn();
    }
    world.publish("9", "hello");
    world.turn();
    assert_eq!(world.payloads(client), ["hello"]);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_the_stream_last() {
    let mut world = world();
    let request = b"GET /none HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n\
                    GET /events/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let client = world
        .net
        .borrow_mut()
        .connect(request, usize::MAX, usize::MAX);
    world.settle();
    let text = world.text(client);
    let at = |needle| {
        text.find(needle)
            .unwrap_or_else(|| panic!("{needle} in {text}"))
    };
    assert!(at("404 Not Found") < at("text/html"));
    assert!(at("text/html") < at("text/event-stream"));
}

#[test]
fn pipelined_requests_are_answered_alike_at_every_split() {
    let long = format!("GET /none?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(99));
    let requests =
        format!("{long}GET /a HTTP/1.1\r\nHost: a\r\n\r\n{long}OPTIONS * HTTP/1.1\r\n\r\n");
    let answers = |split: usize| {
        let mut world = world();
        let (first, second) = requests.as_bytes().split_at(split);
        let client = world
            .net
            .borrow_mut()
            .connect(first, usize::MAX, usize::MAX);
        world.turn();
        world.net.borrow_mut().say(client, second);
        world.settle();
        world.text(client)
    };
    let whole = answers(requests.len());
    assert_eq!(whole.matches("HTTP/1.1 404 ").count(), 3);
    for split in 1..requests.len() {
        assert_eq!(answers(split), whole, "split at byte {split}");
    }
}

#[test]
fn accepting_pauses_when_descriptors_run_out_and_resumes_when_one_is_free() {
    let mut world = world();
    world.net.borrow_mut().descriptors = 1;
    let first = world.connect("/events/1");
    let second = world.connect("/events/2");
    world.settle();
    assert_eq!(world.text(second), "");
    assert_eq!(world.figure(Figure::AcceptPauses), 1);
    world.net.borrow_mut().end(first);
    world.settle();
    assert!(world.text(second).starts_with("HTTP/1.1 200 "));
}

#[test]
fn connections_beyond_a_limit_are_told_to_come_back() {
    let mut world = World::new(Settings {
        max_connections: 1,
        ..Settings::default()
    });
    let first = world.connect("/events/1");
    let second = world.connect("/events/2");
    world.settle();
    assert!(world.text(second).starts_with("HTTP/1.1 503 "));
    assert!(world.text(second).contains("Retry-After: "));
    world.net.borrow_mut().end(first);
    world.net.borrow_mut().end(second);
    world.settle();
    let third = world.connect("/events/3");
    world.settle();
    assert!(world.text(third).starts_with("HTTP/1.1 200 "));
}

#[test]
fn an_ending_server_flushes_says_when_to_come_back_and_ends_each_stream() {
    let mut world = world();
    let reader = world.connect("/events/1");
    let sleeper = world.connect("/events/2");
    world.turn();
    world.net.borrow_mut().pipes[sleeper].room = 5;
    world.publish("2", "last words");
    world.turn();
    world.handle.drain();
    world.settle();
    assert!(!world.net.borrow().is_listening());
    assert!(world.text(reader).ends_with("0\r\n\r\n"));
    assert_eq!(world.text(reader).matches("retry: ").count(), 2);
    world.net.borrow_mut().make_room(sleeper, usize::MAX);
    world.settle();
    assert_eq!(world.payloads(sleeper), ["last words"]);
    assert!(world.text(sleeper).ends_with("0\r\n\r\n"));
    assert!(!world.worker.is_over());
    world.net.borrow_mut().end(reader);
    world.net.borrow_mut().end(sleeper);
    world.settle();
    assert!(world.worker.is_over());
}

#[test]
fn an_ending_server_does_not_wait_for_a_sleeper_beyond_its_time() {
    let mut world = world();
    let sleeper = world.connect("/events/2");
    world.turn();
    world.net.borrow_mut().pipes[sleeper].room = 0;
    world.publish("2", "unread");
    world.turn();
    world.handle.drain();
    world.pass(Duration::from_millis(9_900));
    assert!(!world.worker.is_over());
    world.pass(Duration::from_millis(200));
    assert!(world.worker.is_over());
}

#[test]
fn a_session_closed_by_the_operator_is_offline_at_once() {
    let mut world = world();
    let client = world.connect("/events/1,2");
    world.turn();
    let sessions = world.handle.router().sessions(&super::world::id("2"));
    world.handle.close(&sessions);
    world.turn();
    assert_eq!(world.publish("1", "late").0.audience.online, 0);
    assert!(world.text(client).ends_with("0\r\n\r\n"));
}

#[test]
fn those_owed_most_are_found_in_slices_that_all_who_ask_share() {
    let mut world = world();
    let clients: Vec<_> = (0..40)
        .map(|n| world.connect(&format!("/events/{n}")))
        .collect();
    world.settle();
    for (n, &client) in clients.iter().enumerate() {
        world.net.borrow_mut().pipes[client].room = 0;
        world.publish(&n.to_string(), &"x".repeat(100 + n * 17 % 40));
    }
    world.settle();
    let (told, tell) = mpsc::channel();
    let ask = |world: &World, limit| {
        let told = told.clone();
        let report = move |sessions: Vec<SessionReport>| {
            let owed: Vec<_> = sessions
                .iter()
                .map(|session| session.backlog_bytes)
                .collect();
            told.send((limit, owed)).expect("the test listens");
        };
        world.handle.slowest(limit, report);
    };
    ask(&world, 3);
    ask(&world, 5);
    let mut turns = 0;
    let first = loop {
        world.turn();
        turns += 1;
        if turns == 2 {
            // Another waits for the next walk.
            ask(&world, 1);
        }
        if let Ok(first) = tell.try_recv() {
            break first;
        }
    };
    assert!((5..=10).contains(&turns), "{turns} turns for 40 backlogs");
    let second = tell.try_recv().expect("both are told in the same turn");
    assert_eq!((first.0, second.0), (3, 5));
    assert_eq!(first.1, second.1[..3]);
    assert!(
        second.1.is_sorted_by(|more, less| more >= less),
        "{second:?}"
    );
    assert!(tell.try_recv().is_err());
    while world.worker.slowest.is_sought() {
        world.turn();
    }
    assert_eq!(tell.try_recv(), Ok((1, second.1[..1].to_vec())));
}

#[test]
fn nothing_overtakes_a_backlog_although_the_socket_has_room_again() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.turn();
    world.net.borrow_mut().pipes[client].room = 0;
    world.publish("1", "first");
    world.turn();
    // The kernel has room before its signal is seen.
    world.net.borrow_mut().pipes[client].room = usize::MAX;
    world.publish("1", "second");
    world.turn();
    world
        .handle
        .close(&world.handle.router().sessions(&super::world::id("1")));
    world.turn();
    world.net.borrow_mut().make_room(client, 0);
    world.settle();
    assert_eq!(world.payloads(client), ["first", "second"]);
    assert!(world.text(client).ends_with("0\r\n\r\n"));
}

#[test]
fn a_stall_is_noticed_in_time_although_a_later_deadline_is_pending() {
    let mut world = World::new(Settings {
        stall_timeout: Duration::from_secs(1),
        ..Settings::default()
    });
    let client = world.connect("/events/1");
    world.turn();
    world.net.borrow_mut().pipes[client].room = 0;
    world.publish("1", "unread");
    world.turn();
    world.pass(Duration::from_millis(1_300));
    assert!(world.is_closed(client));
}

#[test]
fn pipelined_requests_wait_until_their_answers_are_taken() {
    let mut world = World::new(Settings {
        backlog_bytes: 4096,
        ..Settings::default()
    });
    let requests = "GET /none HTTP/1.1\r\nHost: a\r\n\r\n".repeat(400);
    let client = world
        .net
        .borrow_mut()
        .connect(requests.as_bytes(), 100, usize::MAX);
    world.settle();
    assert!(world.figure(Figure::BacklogBytes) < 4096);
    for _ in 0..2_000 {
        world.net.borrow_mut().make_room(client, 100);
        world.turn();
    }
    assert_eq!(world.text(client).matches("HTTP/1.1 404 ").count(), 400);
    assert!(!world.is_closed(client));
}

#[test]
fn large_events_that_come_together_share_system_calls() {
    let mut world = world();
    let clients: Vec<_> = (0..20).map(|_| world.connect("/stream/news")).collect();
    world.settle();
    let before = world.net.borrow().sends;
    for text in ["a", "b", "c"] {
        world.publish("news", text);
    }
    world.turn();
    // The fourth joins under way.
    world.publish("news", "d");
    world.settle();
    for client in clients {
        assert_eq!(world.payloads(client), ["a", "b", "c", "d"]);
    }
    assert!(world.net.borrow().sends - before <= 40);
}

// Refused connections once counted until they had gone, and shut out everybody else.
#[test]
fn those_who_are_refused_take_nobodys_place() {
    let mut world = World::new(Settings {
        max_connections: 3,
        max_connections_per_address: Some(1),
        ..Settings::default()
    });
    // The simulated network gives every fourth client the same address.
    let clients: Vec<_> = (0..12)
        .map(|n| world.connect(&format!("/events/{n}")))
        .collect();
    world.settle();
    let admitted = |world: &World| -> Vec<usize> {
        let is_in = |&client: &usize| world.text(client).starts_with("HTTP/1.1 200");
        clients.iter().copied().filter(is_in).collect()
    };
    assert_eq!(admitted(&world), clients[..3]);
    // One leaves; those refused still linger, and its place is free.
    world.net.borrow_mut().end(clients[1]);
    world.turn();
    let next = world.net.borrow().pipes.len();
    assert_eq!(next % 4, 0);
    for _ in 0..2 {
        world.connect("/events/late");
    }
    world.turn();
    assert!(world.text(next + 1).starts_with("HTTP/1.1 200"));
    world.pass(Duration::from_secs(5));
    let count = world.net.borrow().pipes.len();
    for client in 0..count {
        world.net.borrow_mut().end(client);
    }
    world.settle();
    world.assert_empty();
}

#[test]
fn a_flood_of_pipelined_requests_is_answered_in_portions() {
    let mut world = world();
    let requests = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(400);
    let client = world
        .net
        .borrow_mut()
        .connect(requests.as_bytes(), usize::MAX, usize::MAX);
    let answers = |world: &World| world.text(client).matches("HTTP/1.1 200 ").count();
    let mut before = 0;
    while before < 400 {
        world.turn();
        let now = answers(&world);
        assert!(
            now > before && now - before <= 128,
            "{before} to {now} in a turn"
        );
        before = now;
    }
}

// What was kept for the next turn was once taken for a head without an end when more came before it.
#[test]
fn requests_that_come_while_others_wait_for_their_turn_are_read_after_them() {
    let mut world = world();
    let portion = "HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    let client = world
        .net
        .borrow_mut()
        .connect(portion.as_bytes(), usize::MAX, usize::MAX);
    for _ in 0..10 {
        world.turn();
        world.net.borrow_mut().say(client, portion.as_bytes());
    }
    world.settle();
    while world.worker.ingress.is_unread() {
        world.turn();
    }
    assert_eq!(world.text(client).matches("HTTP/1.1 404 ").count(), 1_100);
}

#[test]
fn a_client_that_has_ended_its_side_gets_the_whole_answer() {
    let mut world = world();
    let request = b"GET / HTTP/1.0\r\n\r\n";
    let client = world.net.borrow_mut().connect(request, 100, usize::MAX);
    world.net.borrow_mut().end(client);
    world.settle();
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.settle();
    assert!(world.text(client).trim_end().ends_with("</html>"));
}

#[test]
fn an_event_accepted_before_the_end_is_delivered_before_the_farewells() {
    let mut world = world();
    let clients: Vec<_> = (0..30).map(|_| world.connect("/stream/news")).collect();
    world.settle();
    let (_, tally) = world.publish("news", "last");
    world.handle.drain();
    world.settle();
    assert_eq!(tally.counts().written, 30);
    for client in clients {
        assert_eq!(world.payloads(client), ["last"]);
        assert!(world.text(client).ends_with("0\r\n\r\n"));
    }
}

#[test]
fn a_worker_that_ends_settles_what_it_owes() {
    let mut world = World::new(Settings {
        heartbeat: Duration::ZERO,
        ..Settings::default()
    });
    let client = world.connect("/events/1");
    world.turn();
    world.handle.drain();
    world.turn();
    world.net.borrow_mut().end(client);
    while !world.worker.is_over() {
        world.turn();
    }
    let World {
        net,
        worker,
        handle,
        ..
    } = world;
    let sessions = handle.router().sessions(&super::world::id("1"));
    assert!(sessions.is_empty());
    drop(net);
    // A session of which the worker does not know: mail to it waits, as nobody takes a turn.
    let session = router::SessionRef::new(router::WorkerId(0), 0, 0);
    let somebody = super::world::id("3");
    handle.router().login(&somebody, session).expect("room");
    let publish = || {
        let tally = router::Tally::new();
        let event = router::Event {
            subject: somebody.clone(),
            kind: None,
            payload: router::Payload::Text("late".into()),
        };
        handle.router().publish(event, &tally);
        tally
    };
    let waits = publish();
    assert_eq!(waits.pending(), 1);
    worker.run().expect("it ends");
    assert_eq!((waits.pending(), waits.counts().shed), (0, 1));
    // What is posted now meets a closed mailbox.
    let late = publish();
    assert_eq!((late.pending(), late.counts().shed), (0, 1));
}

/// Notes how many deliveries the statistics have when a publisher is woken.
struct Woken {
    handle: Handle,
    written: AtomicU64,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let written = self.handle.stats().total(Figure::Deliveries);
        self.written.store(written, Ordering::Relaxed);
    }
}

// The counters were once behind the receipt.
#[test]
fn who_has_a_receipt_finds_it_in_the_statistics() {
    let mut world = world();
    for _ in 0..3 {
        world.connect("/events/news");
    }
    world.settle();
    let (_, tally) = world.publish("news", "hello");
    let woken = Arc::new(Woken {
        handle: world.handle.clone(),
        written: 0.into(),
    });
    let waker = Arc::clone(&woken).into();
    let mut done = pin!(tally.done());
    let mut context = Context::from_waker(&waker);
    assert!(done.as_mut().poll(&mut context).is_pending());
    world.settle();
    assert_eq!(woken.written.load(Ordering::Relaxed), 3);
}
