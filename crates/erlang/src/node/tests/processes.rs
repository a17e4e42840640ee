//! Processes: links, monitors and logins, and what happens to them when the process or its node
//! ends.

use graph::Id;
use router::{Event, Payload, Tally};

use super::*;
use crate::connections::{DeliveryOutcome, Process};
use crate::sim::peer::{
    PEERS_CREATION, atom, hear_messages, integer, message, pid, reference, tuple,
};
use crate::sim::{CREATION, TICK_TIME};

/// A pid of this node: 2 is the router.
fn own(id: u32) -> Vec<u8> {
    pid(NAME, id, CREATION)
}

fn control(parts: &[Vec<u8>]) -> Vec<u8> {
    message(&tuple(parts), None)
}

fn login(id: &str, process: &[u8]) -> Vec<u8> {
    PEER.call_to(
        "router",
        &tuple(&[atom("login"), atom(id), process.to_vec()]),
    )
}

fn publish(id: &str) -> Vec<u8> {
    PEER.call_to("router", &tuple(&[atom("send"), atom(id), atom("msg")]))
}

/// The reference of the monitor of the first process that logs in.
fn monitor() -> Vec<u8> {
    reference(NAME, CREATION, &[0, 0, 0])
}

fn reply(reply: &str) -> String {
    format!("{{2,'',<peer@h.5.0>}} ! {{#Ref<peer@h.0.0.1>,{reply}}}")
}

const MONITORED: &str = "{19,<encke@h.2.0>,<peer@h.5.0>,#Ref<encke@h.0.0.0>}";
const DELIVERED: &str = "{2,'',<peer@h.5.0>} ! {router_msg,msg}";

#[test]
fn a_link_to_an_unknown_process_ends_at_once_and_others_hold() {
    assert_eq!(
        heard(&[control(&[integer(1), PEER.pid(5), own(99)])]),
        ["{3,<encke@h.99.0>,<peer@h.5.0>,noproc}"]
    );
    assert_eq!(
        heard(&[control(&[integer(1), PEER.pid(5), own(2)])]),
        Vec::<String>::new()
    );
}

#[test]
fn a_process_that_asks_for_a_link_is_linked_once_and_exits_with_its_session() {
    let login = |options: &[Vec<u8>]| {
        let options = match options {
            [] => crate::sim::peer::nil(),
            _ => crate::sim::peer::list(options, &crate::sim::peer::nil()),
        };
        let request = tuple(&[atom("login"), atom("alice"), PEER.pid(5), options]);
        PEER.call_to("router", &request)
    };
    let logout = PEER.call_to("router", &tuple(&[atom("logout"), PEER.pid(5)]));
    let linked = "{1,<encke@h.2.0>,<peer@h.5.0>}";
    let heard = heard(&[
        login(&[]),
        login(&[atom("link")]),
        login(&[atom("link")]),
        login(&[atom("unknown")]),
        logout,
    ]);
    assert_eq!(
        heard[..3],
        [MONITORED.to_owned(), reply("ok"), linked.to_owned()]
    );
    assert_eq!(heard[3..5], [reply("ok"), reply("ok")]);
    assert!(heard[5].contains("a list of options"), "{heard:?}");
    assert_eq!(heard[7], "{35,1,<encke@h.2.0>,<peer@h.5.0>}");
    let (mut sim, connection) = connected();
    sim.receive(connection, &login(&[atom("link")]));
    sim.run_until_idle();
    sim.take_sent(connection);
    let slot = sim.node.sessions.at(0).unwrap().0;
    sim.wake().close_sessions(&[slot]);
    sim.run_until_idle();
    let said = hear_messages(&sim.take_sent(connection));
    assert_eq!(said[1], "{3,<encke@h.2.0>,<peer@h.5.0>,closed}");
}

#[test]
fn the_removal_of_a_link_is_acknowledged_with_its_id() {
    let unlink = control(&[integer(35), integer(1 << 40), PEER.pid(5), own(2)]);
    assert_eq!(
        heard(&[unlink]),
        [format!("{{36,{},<encke@h.2.0>,<peer@h.5.0>}}", 1_u64 << 40)]
    );
    // The form of nodes before OTP 23, which expect no acknowledgement.
    let unlink = control(&[integer(4), PEER.pid(5), own(2)]);
    assert_eq!(heard(&[unlink]), Vec::<String>::new());
}

#[test]
fn a_monitor_of_an_unknown_process_is_answered_at_once() {
    let monitor = |of: Vec<u8>| control(&[integer(19), PEER.pid(5), of, PEER.reference(3)]);
    let told = |of: &str| format!("{{21,{of},<peer@h.5.0>,#Ref<peer@h.0.0.3>,noproc}}");
    assert_eq!(heard(&[monitor(atom("nobody"))]), [told("nobody")]);
    assert_eq!(heard(&[monitor(own(99))]), [told("<encke@h.99.0>")]);
    assert_eq!(heard(&[monitor(pid(NAME, 2, 3))]), [told("<encke@h.2.0>")]);
    for of in [atom("router"), own(2), atom("any"), own(3)] {
        assert_eq!(heard(&[monitor(of)]), Vec::<String>::new());
    }
    let demonitor = control(&[integer(20), PEER.pid(5), atom("nobody"), PEER.reference(3)]);
    assert_eq!(heard(&[demonitor]), Vec::<String>::new());
}

#[test]
fn exits_and_group_leaders_are_ignored() {
    let packets = [
        control(&[integer(3), PEER.pid(5), own(2), atom("killed")]),
        control(&[integer(8), PEER.pid(5), own(2), atom("kill")]),
        control(&[integer(7), PEER.pid(5), own(2)]),
        control(&[integer(36), integer(1), PEER.pid(5), own(2)]),
        message(
            &tuple(&[integer(24), PEER.pid(5), own(2)]),
            Some(&atom("killed")),
        ),
        message(
            &tuple(&[integer(26), PEER.pid(5), own(2)]),
            Some(&atom("kill")),
        ),
        message(
            &tuple(&[integer(33), PEER.pid(5), PEER.reference(1)]),
            Some(&atom("late")),
        ),
        PEER.call_to("router", &atom("pid")),
    ];
    assert_eq!(heard(&packets), [reply("<encke@h.2.0>")]);
}

#[test]
fn a_process_that_logs_in_is_monitored_once_and_gets_events_until_it_logs_out() {
    let logout = PEER.call_to("router", &tuple(&[atom("logout"), PEER.pid(5)]));
    let (mut sim, connection) = connected();
    let mut ask = |packet: &[u8]| {
        sim.receive(connection, packet);
        sim.run_until_idle();
        hear_messages(&sim.take_sent(connection))
    };
    assert_eq!(ask(&publish("alice")), [reply("{ok,0}")]);
    assert_eq!(
        ask(&login("alice", &PEER.pid(5))),
        [MONITORED.to_owned(), reply("ok")]
    );
    assert_eq!(ask(&login("bob", &PEER.pid(5))), [reply("ok")]);
    assert_eq!(ask(&login("bob", &PEER.pid(5))), [reply("ok")]);
    for id in ["alice", "bob"] {
        assert_eq!(ask(&publish(id)), [DELIVERED.to_owned(), reply("{ok,1}")]);
    }
    let demonitored = "{20,<encke@h.2.0>,<peer@h.5.0>,#Ref<encke@h.0.0.0>}".to_owned();
    assert_eq!(ask(&logout), [demonitored, reply("ok")]);
    assert_eq!(ask(&logout), [reply("ok")]);
    assert_eq!(ask(&publish("alice")), [reply("{ok,0}")]);
}

#[test]
fn a_process_that_ends_is_logged_out_at_every_split() {
    let plain = [integer(21), PEER.pid(5), own(2), monitor(), atom("normal")];
    let with_payload = [integer(28), PEER.pid(5), own(2), monitor()];
    for down in [
        control(&plain),
        message(
            &tuple(&with_payload),
            Some(&tuple(&[atom("badarg"), atom("x")])),
        ),
    ] {
        let stream = [PEER.call(), login("alice", &PEER.pid(5)), down].concat();
        let outcome = alike_at_every_split(Opener::Peer, &stream);
        assert_eq!(outcome.sessions, 0);
        assert_eq!(outcome.metrics.refused, [0; Refusal::KINDS]);
    }
}

// Regression: messages that waited for the socket of a node were counted as written.
#[test]
fn a_receipt_distinguishes_queued_messages_from_written_ones() {
    let (mut sim, connection) = connected();
    sim.receive(connection, &login("alice", &PEER.pid(5)));
    sim.run_until_idle();
    let publish = |sim: &mut SimulatedNode| {
        let tally = Tally::new();
        sim.router.publish(
            Event {
                subject: Id::parse("alice").unwrap(),
                event_type: None,
                payload: Payload::text("hello".into()),
            },
            &tally,
        );
        sim.run_until_idle();
        let counts = tally.counts();
        (counts.written, counts.queued, counts.shed)
    };
    assert_eq!(publish(&mut sim), (1, 0, 0));
    sim.block(connection);
    assert_eq!(publish(&mut sim), (0, 1, 0));
    assert_eq!(publish(&mut sim), (0, 1, 0));
}

#[test]
fn only_the_node_of_a_process_can_report_its_end() {
    let (mut sim, connection) = connected();
    sim.receive(connection, &login("alice", &PEER.pid(5)));
    let other = Peer::new("other@h");
    let stranger = sim.accept_peer().unwrap();
    sim.receive(stranger, &other.call());
    let down = |from: Vec<u8>, monitor: Vec<u8>| {
        control(&[integer(21), from, own(2), monitor, atom("normal")])
    };
    sim.receive(stranger, &down(other.pid(5), monitor()));
    for words in [[1, 0, 0], [0, 1, 0], [0, 0, 1]] {
        sim.receive(
            connection,
            &down(PEER.pid(5), reference(NAME, CREATION, &words)),
        );
    }
    sim.receive(
        connection,
        &down(PEER.pid(5), reference(NAME, CREATION - 1, &[0, 0, 0])),
    );
    sim.receive(
        connection,
        &down(PEER.pid(5), reference(PEER.name, CREATION, &[0, 0, 0])),
    );
    sim.run_until_idle();
    assert_eq!(sim.node.sessions.len(), 1);
    sim.receive(connection, &down(PEER.pid(5), monitor()));
    sim.run_until_idle();
    assert_eq!(sim.node.sessions.len(), 0);
}

#[test]
fn processes_are_logged_out_when_their_node_disconnects() {
    let (mut sim, connection) = connected();
    for number in 0..20_000 {
        sim.receive(
            connection,
            &login(&format!("user{}", number % 7), &PEER.pid(number)),
        );
    }
    sim.run_until_idle();
    assert_eq!(sim.node.sessions.len(), 20_000);
    sim.advance_clock(TICK_TIME);
    assert!(sim.is_closed(connection));
    assert_eq!(sim.node.sessions.len(), 0);
}

#[test]
fn one_turn_logs_out_a_bounded_number_of_processes() {
    let (mut sim, connection) = connected();
    for number in 0..20_000 {
        sim.receive(connection, &login("user", &PEER.pid(number)));
    }
    sim.run_until_idle();
    sim.wake().ended(connection);
    for left in [20_000 - 8192, 20_000 - 2 * 8192, 0] {
        assert!(sim.node.is_busy());
        sim.wake().run_deadlines();
        assert_eq!(sim.node.sessions.len(), left);
    }
    assert!(!sim.node.is_busy());
}

#[test]
fn events_that_wait_for_a_node_are_bounded_in_bytes_and_in_number() {
    let (mut sim, connection) = connected();
    sim.receive(connection, &login("alice", &PEER.pid(5)));
    sim.run_until_idle();
    sim.block(connection);
    let event: std::rc::Rc<[u8]> = vec![0; 60_000].into();
    let process = Process {
        connection,
        id: 5,
        serial: 0,
    };
    let connections = &mut sim.node.connections;
    while connections.has_room(connection) {
        connections.deliver(process, &event);
    }
    let sent = connections.get(connection).unwrap().send_buffer.len();
    assert!(
        (1 << 20..(1 << 20) + 61_000).contains(&sent),
        "{sent} bytes"
    );
    for _ in 0..4 << 20 {
        let outcome = connections.deliver(process, &event);
        assert_eq!(outcome, DeliveryOutcome::Queued);
    }
    let outcome = connections.deliver(process, &event);
    assert_eq!(outcome, DeliveryOutcome::Shed);
}

#[test]
fn a_process_of_an_earlier_run_of_its_node_cannot_log_in() {
    let told = heard(&[login("alice", &pid(PEER.name, 5, PEERS_CREATION - 1))]);
    assert!(told[0].contains("to an earlier run of peer@h"), "{told:?}");
    let told = heard(&[login("alice", &own(2))]);
    assert!(
        told[0].contains("a process of this node cannot log in"),
        "{told:?}"
    );
}

#[test]
fn the_node_of_a_process_logged_in_by_another_node_is_dialed() {
    let far = Peer::new("far@h");
    let logged_in = || {
        let (mut sim, connection) = connected();
        sim.receive(connection, &login("alice", &far.pid(8)));
        sim.run_until_idle();
        assert_eq!(hear_messages(&sim.take_sent(connection)), [reply("ok")]);
        let (call, name) = sim.calls.pop().unwrap();
        assert_eq!(name.as_str(), far.name);
        (sim, call)
    };
    let (mut sim, call) = logged_in();
    assert!(sim.complete_dial(call, 6));
    sim.receive(call, &far.answer(true));
    sim.run_until_idle();
    let heard = hear(&sim.take_sent(call)).messages;
    assert_eq!(
        heard,
        ["{19,<encke@h.2.0>,<far@h.8.0>,#Ref<encke@h.0.0.0>}"]
    );
    assert_eq!(sim.node.sessions.len(), 1);
    // The node cannot be reached.
    let (mut sim, call) = logged_in();
    sim.wake().ended(call);
    sim.run_until_idle();
    assert_eq!(sim.node.sessions.len(), 0);
    // Another run of the node answers.
    let (mut sim, connection) = connected();
    sim.receive(
        connection,
        &login("alice", &pid(far.name, 8, PEERS_CREATION + 1)),
    );
    sim.run_until_idle();
    let (call, _) = sim.calls.pop().unwrap();
    assert!(sim.complete_dial(call, 6));
    sim.receive(call, &far.answer(true));
    sim.run_until_idle();
    assert_eq!(sim.node.sessions.len(), 0);
}

#[test]
fn a_node_that_dials_while_it_is_dialed_keeps_its_sessions() {
    let far = Peer::new("zzz@h");
    let (mut sim, connection) = connected();
    sim.receive(connection, &login("alice", &far.pid(8)));
    sim.run_until_idle();
    let (ours, _) = sim.calls.pop().unwrap();
    assert!(sim.complete_dial(ours, 6));
    let theirs = sim.accept_peer().unwrap();
    sim.receive(theirs, &far.call());
    sim.run_until_idle();
    assert!(sim.is_closed(ours));
    let heard = hear(&sim.take_sent(theirs)).messages;
    assert_eq!(
        heard,
        ["{19,<encke@h.2.0>,<zzz@h.8.0>,#Ref<encke@h.0.0.0>}"]
    );
    assert_eq!(sim.node.sessions.len(), 1);
}

#[test]
fn sessions_of_a_node_end_when_it_restarts() {
    let (mut sim, connection) = connected();
    sim.receive(connection, &login("alice", &PEER.pid(5)));
    sim.wake().ended(connection);
    let again = sim.accept_peer().unwrap();
    sim.receive(again, &PEER.call());
    sim.run_until_idle();
    assert_eq!(sim.node.sessions.len(), 0);
    sim.receive(again, &publish("alice"));
    sim.run_until_idle();
    assert_eq!(hear(&sim.take_sent(again)).messages, [reply("{ok,0}")]);
}
