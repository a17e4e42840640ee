//! The bound on all buffers together: who gives way beyond it, in which order, and who never does.

use std::time::Duration;

use reactor::Handler as _;

use super::{quiet, with_history, world_with};
use crate::budget::Bound;
use crate::limits::Limits;
use crate::settings::LiveSettings;
use crate::sim::websocket_client::{last, open_with};
use crate::sim::world::{World, id};
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;
use crate::table::Backlog;

const HALF_A_HEAD: &[u8] = b"GET /events/1 HTTP/1.1\r\nHost: localhost\r\nX-Padding: ";

fn settings(buffer_bytes: usize, slow: SlowPolicy) -> LiveSettings {
    LiveSettings {
        buffer_bytes,
        slow,
        ..quiet()
    }
}

/// Readers `1` to `count` that have stopped, for each of which as many events wait as its number
/// says. Reader 0 reads everything.
fn stopped_readers(world: &mut World, count: usize) -> Vec<usize> {
    // Of different subjects, so that no event replaces another.
    for reader in 0..=count {
        for event in 0..count {
            world.subscribe(&reader.to_string(), &format!("{reader}-{event}"));
        }
    }
    let readers: Vec<_> = (0..=count)
        .map(|n| world.connect(&format!("/test/{n}")))
        .collect();
    world.run_until_idle();
    for &reader in &readers[1..] {
        world.net.borrow_mut().peers[reader].room = 0;
    }
    for event in 0..count {
        for reader in 0..=count {
            if reader == 0 || event < reader {
                world.publish(&format!("{reader}-{event}"), &format!("{event};"));
                world.run_until_idle();
            }
        }
    }
    readers
}

fn held(world: &World) -> usize {
    world.shared.budget.total()
}

/// Sets the bound to so many bytes less than are held.
fn lower_bound(world: &mut World, by: usize) {
    let bound = held(world) - by;
    let pending = world.handle.reload(move |live| LiveSettings {
        buffer_bytes: bound,
        ..live.clone()
    });
    world.run_until_idle();
    assert!(pending.wait(Duration::ZERO));
}

/// Lets time pass in steps, in each of which the worker does all it has to do.
fn pass(world: &mut World, time: Duration) {
    for _ in 0..time.as_millis() / 100 {
        world.pass(Duration::from_millis(100));
        world.run_until_idle();
    }
}

/// Events that wait for a reader; `None` if it has no session.
fn waiting(world: &World, reader: usize) -> Option<usize> {
    let sessions = world.handle.router().sessions(&id(&reader.to_string()));
    let slot = sessions.first()?.key().index;
    let backlog = world.worker.table.backlogs().get(slot);
    Some(backlog.map_or(0, Backlog::events))
}

fn leave(mut world: World) {
    world.net.borrow_mut().end_all();
    pass(&mut world, Duration::from_secs(12));
    world.wake();
    world.assert_empty();
    assert_eq!(held(&world), 0);
}

#[test]
fn the_largest_sessions_give_way_first_by_their_policy_and_no_others() {
    const COUNT: usize = 6;
    for (policy, left, metric) in [
        (SlowPolicy::Close, None, Metric::GaveWayClose),
        (SlowPolicy::CatchUp, Some(1), Metric::GaveWayCatchUp),
        (SlowPolicy::DropOldest, Some(3), Metric::GaveWayDropOldest),
        (SlowPolicy::Latest, Some(3), Metric::GaveWayLatest),
    ] {
        let mut world = with_history(settings(usize::MAX, policy));
        let readers = stopped_readers(&mut world, COUNT);
        let before: Vec<_> = (0..=COUNT).map(|reader| waiting(&world, reader)).collect();
        assert!(
            before.iter().copied().eq((0..=COUNT).map(Some)),
            "{before:?}"
        );
        lower_bound(&mut world, 1);
        let gave_way = world.metric(metric) as usize;
        assert!((1..4).contains(&gave_way), "{policy:?}: {gave_way}");
        let kept = COUNT - gave_way;
        for (reader, &before) in before.iter().enumerate().take(kept + 1) {
            assert_eq!(waiting(&world, reader), before, "{policy:?}: {reader}");
            assert!(!world.is_closed(readers[reader]));
        }
        assert_eq!(waiting(&world, COUNT), left, "{policy:?}");
        assert_eq!(world.is_closed(readers[COUNT]), left.is_none());
        assert!(held(&world) <= world.handle.stats().total(Metric::BufferBytes) as usize);
        assert_eq!(world.payloads(readers[0]).len(), COUNT, "{policy:?}");
        leave(world);
    }
}

#[test]
fn sessions_that_read_on_after_they_gave_way_get_what_their_policy_promises() {
    for policy in [SlowPolicy::CatchUp, SlowPolicy::DropOldest] {
        let mut world = with_history(settings(1, policy));
        let reader = world.connect("/events/1");
        world.run_until_idle();
        world.net.borrow_mut().peers[reader].room = 10;
        for number in 0..20 {
            world.publish("1", &number.to_string());
            pass(&mut world, Duration::from_millis(100));
            world.net.borrow_mut().make_room(reader, 1);
        }
        world.net.borrow_mut().make_room(reader, usize::MAX);
        world.run_until_idle();
        let got = world.payloads(reader);
        match policy {
            SlowPolicy::CatchUp => assert!(
                got.iter().map(String::as_str).eq([
                    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14",
                    "15", "16", "17", "18", "19"
                ]),
                "{got:?}"
            ),
            _ => {
                let lost = got.iter().filter_map(|payload| {
                    let lost = payload.strip_prefix("{\"lost\":")?.strip_suffix('}')?;
                    Some(lost.parse::<usize>().expect("a number"))
                });
                let (notices, lost) = (lost.clone().count(), lost.sum::<usize>());
                assert!(lost > 10, "{got:?}");
                assert_eq!(got.len() - notices + lost, 20, "{got:?}");
            }
        }
        leave(world);
    }
}

#[test]
fn a_bound_below_one_frame_serves_all_who_read() {
    for policy in SlowPolicy::ALL {
        let mut world = with_history(settings(1, policy));
        let reader = world.connect("/events/1");
        world.run_until_idle();
        // Its path takes a large event in pieces, and its socket is full in between.
        world.net.borrow_mut().peers[reader].bite = 100;
        let large = "x".repeat(5000);
        for _ in 0..3 {
            world.publish("1", &large);
            for _ in 0..70 {
                world.net.borrow_mut().peers[reader].room = 100;
                world.net.borrow_mut().make_room(reader, 0);
                pass(&mut world, Duration::from_millis(100));
            }
        }
        assert_eq!(world.payloads(reader), [&large[..]; 3], "{policy:?}");
        leave(world);
    }
}

#[test]
fn a_full_socket_that_takes_nothing_is_closed_after_a_second_when_nothing_else_can_be_freed() {
    let mut world = with_history(settings(
        2 * Limits::SMALL.full_socket_bytes,
        SlowPolicy::CatchUp,
    ));
    let readers = stopped_readers(&mut world, 4);
    pass(&mut world, Duration::from_millis(200));
    assert_eq!(
        world.metric(Metric::GaveWayCatchUp),
        3,
        "one event is not dropped"
    );
    pass(&mut world, Duration::from_millis(300));
    assert!(readers.iter().all(|&reader| !world.is_closed(reader)));
    pass(&mut world, Duration::from_secs(1));
    assert!(held(&world) <= 2 * Limits::SMALL.full_socket_bytes);
    let stalled = world.metric(Metric::GaveWayStalled);
    assert_eq!(world.metric(Metric::ClosedSlow), stalled);
    let open = readers.iter().filter(|&&reader| !world.is_closed(reader));
    assert_eq!(open.count() as u64, 5 - stalled);
    assert!((3..=4).contains(&stalled), "{stalled}");
    assert!(!world.is_closed(readers[0]));
    for &reader in &readers[1..] {
        // The kernel would keep what it has for a peer that reads nothing.
        assert_eq!(
            world.net.borrow().peers[reader].reset,
            world.is_closed(reader)
        );
    }
    leave(world);
}

#[test]
fn a_websocket_that_gives_way_is_told_so_where_its_policy_is_to_close() {
    let mut world = world_with(settings(1, SlowPolicy::Close));
    let client = open_with(&mut world, "/ws/1", "", 400);
    for n in 0..5 {
        world.publish("1", &format!("event {n} {}", "x".repeat(150)));
        pass(&mut world, Duration::from_millis(100));
    }
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
    assert_eq!(
        last(&world, client),
        "close 3008 the client reads too slowly"
    );
    leave(world);
}

/// Clients that send half a head, each a byte more than the one before.
fn half_heads(world: &mut World, count: usize) -> Vec<usize> {
    let heads = (0..count).map(|n| {
        let head = [HALF_A_HEAD, &vec![b'x'; 100 + n]].concat();
        world.connect_with(&head, usize::MAX, usize::MAX)
    });
    let clients = heads.collect();
    world.run_until_idle();
    clients
}

#[test]
fn a_stranger_with_many_half_heads_keeps_no_good_client_out() {
    let mut world = world_with(settings(4000, SlowPolicy::Close));
    for round in 0..20 {
        let strangers = half_heads(&mut world, 12);
        assert!(held(&world) <= 4000, "round {round}: {}", held(&world));
        let refused = strangers
            .iter()
            .filter(|&&client| !world.text(client).is_empty());
        for &client in refused {
            assert_eq!(world.status(client), 503);
            assert!(world.text(client).contains("Retry-After: "));
        }
        let whole = world.connect("/events/1");
        world.run_until_idle();
        assert_eq!(world.status(whole), 200, "round {round}");
        // What a client sends in two parts has room, too, once the largest have given way.
        let parts = world.connect_with(
            b"GET /events/1 HTTP/1.1\r\nHost: lo",
            usize::MAX,
            usize::MAX,
        );
        world.run_until_idle();
        world.say(parts, b"calhost\r\n\r\n");
        world.run_until_idle();
        assert_eq!(world.status(parts), 200, "round {round}");
    }
    assert!(world.metric(Metric::GaveWayInput) > 0);
    leave(world);
}

#[test]
fn the_largest_and_of_equal_ones_the_oldest_head_gives_way_first() {
    let mut world = world_with(settings(usize::MAX, SlowPolicy::Close));
    let half = |world: &mut World, bytes| {
        let head = [HALF_A_HEAD, &vec![b'x'; bytes]].concat();
        let client = world.connect_with(&head, usize::MAX, usize::MAX);
        pass(world, Duration::from_secs(1));
        client
    };
    let heads = [100, 300, 300, 500].map(|bytes| half(&mut world, bytes));
    for first in [heads[3], heads[1], heads[2], heads[0]] {
        assert!(world.text(first).is_empty());
        lower_bound(&mut world, 1);
        assert_eq!(world.status(first), 503);
        let answered = heads.iter().filter(|&&head| !world.text(head).is_empty());
        assert_eq!(answered.count() as u64, world.metric(Metric::GaveWayInput));
    }
    assert_eq!(world.metric(Metric::GaveWayInput), 4);
    leave(world);
}

#[test]
fn half_heads_have_a_bound_of_their_own_and_cost_no_reader_its_events() {
    const ROOM: usize = 4000;
    let mut world = with_history(settings(usize::MAX, SlowPolicy::DropOldest));
    world.worker.input_bound = Bound(ROOM);
    let readers = stopped_readers(&mut world, 4);
    let before: Vec<_> = (0..=4).map(|reader| waiting(&world, reader)).collect();
    for round in 0..20 {
        half_heads(&mut world, 40);
        let kept = world.worker.input_bytes();
        assert!(kept <= ROOM, "round {round}: {kept}");
        let whole = world.connect("/events/1");
        world.run_until_idle();
        assert_eq!(world.status(whole), 200, "round {round}");
    }
    assert!(world.metric(Metric::GaveWayInput) > 100);
    let after: Vec<_> = (0..=4).map(|reader| waiting(&world, reader)).collect();
    assert_eq!(
        after[2..],
        before[2..],
        "readers 0 and 1 have other sessions too"
    );
    assert!(readers.iter().all(|&reader| !world.is_closed(reader)));
    leave(world);
}

#[test]
fn the_bound_on_half_heads_takes_no_more_than_it_must() {
    const ROOM: usize = 8000;
    let mut world = world_with(settings(usize::MAX, SlowPolicy::Close));
    world.worker.input_bound = Bound(ROOM);
    let mut heads = Vec::new();
    while world.metric(Metric::GaveWayInput) == 0 {
        heads.extend(half_heads(&mut world, 1));
    }
    let kept = world.worker.input_bytes();
    assert!(kept <= ROOM && kept > ROOM * 3 / 4, "{kept} of {ROOM}");
    heads.retain(|&head| world.text(head).is_empty());
    for head in heads {
        world.say(head, b"\r\n\r\n");
        world.run_until_idle();
        assert_eq!(world.status(head), 200);
    }
    leave(world);
}

#[test]
fn new_half_heads_are_refused_while_nothing_can_be_freed() {
    // Full sockets that have not stalled for long take up all there is.
    let mut world = with_history(settings(
        Limits::SMALL.full_socket_bytes,
        SlowPolicy::CatchUp,
    ));
    let readers = stopped_readers(&mut world, 2);
    assert!(held(&world) > Limits::SMALL.full_socket_bytes);
    let [refused] = half_heads(&mut world, 1)[..] else {
        panic!("one client");
    };
    assert_eq!(world.status(refused), 503);
    assert!(world.text(refused).contains("Retry-After: "));
    assert_eq!(world.metric(Metric::RefusedBuffers), 1);
    let whole = world.connect("/events/1");
    world.run_until_idle();
    assert_eq!(world.status(whole), 200);
    assert!(readers.iter().all(|&reader| !world.is_closed(reader)));
    leave(world);
}

#[test]
fn a_worker_with_more_than_its_share_is_woken_by_one_that_exceeds_the_bound() {
    let mut world = world_with(settings(10_000, SlowPolicy::Close));
    world.shared.budget.report(1, 9_500);
    assert!(world.beside.may_sleep() || world.beside.is_asleep());
    let heads = half_heads(&mut world, 4);
    assert!(held(&world) > 10_000);
    assert!(!world.beside.is_asleep(), "it was not woken");
    assert!(
        heads.iter().all(|&head| world.text(head).is_empty()),
        "this one holds less than half of what is allowed"
    );
    // The other has given way; then this one grows beyond its share, and the other is within it.
    world.shared.budget.report(1, 4_000);
    half_heads(&mut world, 40);
    assert!(held(&world) <= 10_000);
    assert!(world.metric(Metric::GaveWayInput) > 0);
    // A worker that sleeps, or is about to, learns that it must give way.
    let before = world.shared.budget.held_by(0);
    assert!(world.worker.may_sleep());
    world.shared.budget.report(1, 4_999);
    assert_eq!(world.worker.may_sleep(), held(&world) <= 10_000, "{before}");
    world.shared.budget.report(1, 0);
    world.worker.wake_up();
    leave(world);
}
