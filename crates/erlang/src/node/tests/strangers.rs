//! Peers that have not proved that they know the cookie, and nodes that make this one dial: their
//! number is bounded, and they do not harm others.

use super::*;
use crate::limits::{DIALS_MAX, UNPROVEN_MAX};
use crate::sim::peer::{atom, hear_messages, pid, status, tuple};

fn crowded(sim: &SimulatedNode) -> u64 {
    sim.counted().refused[Refusal::Crowded.kind()]
}

fn login(process: &[u8]) -> Vec<u8> {
    let request = tuple(&[atom("login"), atom("alice"), process.to_vec()]);
    PEER.call_to("router", &request)
}

#[test]
fn silent_peers_do_not_block_other_nodes() {
    let mut sim = SimulatedNode::new(NAME, &[]);
    let strangers: Vec<_> = (0..600).map(|_| sim.accept_peer().unwrap()).collect();
    assert_eq!(sim.node.connections.len(), UNPROVEN_MAX);
    let node = sim.accept_peer().unwrap();
    sim.receive(node, &PEER.call());
    sim.run_until_idle();
    assert_eq!(sim.counted().nodes, 1);
    assert_eq!(crowded(&sim), 601 - UNPROVEN_MAX as u64);
    // The oldest was closed.
    assert!(sim.is_closed(strangers[0]) && !sim.is_closed(strangers[599]));
    sim.advance_clock(HANDSHAKE_TIME);
    assert_eq!(sim.node.connections.len(), 1);
}

#[test]
fn nodes_beyond_the_limit_are_refused() {
    let mut sim = SimulatedNode::new(NAME, &[]);
    let mut first = None;
    for number in 0..CONNECTIONS_MAX {
        let name = Box::leak(format!("n{number}@h").into_boxed_str());
        let connection = sim.accept_peer().unwrap();
        first.get_or_insert(connection);
        sim.receive(connection, &Peer::new(name).call());
    }
    sim.run_until_idle();
    assert_eq!(sim.counted().nodes, CONNECTIONS_MAX as u64);
    assert_eq!(crowded(&sim), 0);
    assert!(sim.accept_peer().is_none());
    assert_eq!(crowded(&sim), 1);
    sim.wake().ended(first.unwrap());
    assert!(sim.accept_peer().is_some());
}

#[test]
fn an_unproven_peer_with_the_name_of_a_dialed_node_has_no_effect() {
    let stranger = Peer {
        cookie: "another",
        ..PEER
    };
    for said in [stranger.name_6(), stranger.call()] {
        for at in 0..=said.len() {
            let mut sim = SimulatedNode::new(NAME, &[PEER.name]);
            // Connected before the node dials, and while it dials.
            let early = sim.accept_peer().unwrap();
            sim.receive(early, &stranger.name_6());
            sim.run_until_idle();
            let found = sim.node.connections.find(PEER.name);
            assert_ne!(found, Some(early), "by the name alone");
            let (ours, _) = sim.calls.pop().unwrap();
            assert!(sim.complete_dial(ours, 6));
            let late = sim.accept_peer().unwrap();
            sim.receive(late, &said[..at]);
            sim.receive(late, &said[at..]);
            sim.run_until_idle();
            assert!(!sim.is_closed(ours));
            sim.receive(ours, &PEER.answer(true));
            sim.run_until_idle();
            assert_eq!(sim.counted().nodes, 1);
            assert_eq!(sim.node.connections.find(PEER.name), Some(ours));
        }
    }
}

#[test]
fn an_unproven_peer_cannot_end_the_connection_of_a_node() {
    let stranger = Peer {
        cookie: "another",
        ..PEER
    };
    let (mut sim, node) = connected();
    sim.receive(node, &login(&PEER.pid(5)));
    let second = sim.accept_peer().unwrap();
    let said = [stranger.name_6(), status("true"), stranger.reply()].concat();
    sim.receive(second, &said);
    sim.run_until_idle();
    assert!(sim.is_closed(second) && !sim.is_closed(node));
    assert_eq!((sim.counted().nodes, sim.counted().sessions), (1, 1));
}

#[test]
fn sessions_that_wait_for_a_dial_are_not_given_to_an_unproven_peer() {
    let far = Peer::new("zzz@h");
    let stranger = Peer {
        cookie: "another",
        ..far
    };
    let (mut sim, connection) = connected();
    sim.receive(connection, &login(&far.pid(8)));
    sim.run_until_idle();
    let (ours, _) = sim.calls.pop().unwrap();
    assert!(sim.complete_dial(ours, 6));
    let theirs = sim.accept_peer().unwrap();
    sim.receive(theirs, &stranger.name_6());
    sim.run_until_idle();
    assert!(!sim.is_closed(ours));
    // The real node refuses the dial, as if it were the one that has connected.
    sim.receive(ours, &status("nok"));
    sim.run_until_idle();
    assert!(sim.is_closed(ours));
    assert_eq!(sim.counted().sessions, 1);
    sim.take_sent(theirs);
    let event = tuple(&[atom("send"), atom("alice"), atom("secret")]);
    sim.receive(connection, &PEER.call_to("router", &event));
    sim.run_until_idle();
    assert_eq!(sim.take_sent(theirs), b"");
    sim.receive(theirs, &stranger.reply());
    sim.run_until_idle();
    assert!(sim.is_closed(theirs));
    assert_eq!(sim.counted().sessions, 0);
}

#[test]
fn logins_of_processes_of_unknown_nodes_cause_a_bounded_number_of_dials() {
    let (mut sim, connection) = connected();
    let mut answers = Vec::new();
    for number in 0..4000 {
        sim.receive(
            connection,
            &login(&pid(&format!("n{number}@nowhere"), 8, 77)),
        );
        sim.run_until_idle();
        answers.extend(hear_messages(&sim.take_sent(connection)));
    }
    assert_eq!(sim.calls.len(), DIALS_MAX);
    assert_eq!(answers.len(), 4000);
    let refused = answers
        .iter()
        .filter(|answer| answer.contains("log in again later"));
    assert_eq!(refused.count(), 4000 - DIALS_MAX);
    assert_eq!(crowded(&sim), 4000 - DIALS_MAX as u64);
    assert_eq!(sim.counted().sessions, DIALS_MAX as u64);
    // Dials of unreachable nodes time out and make room.
    sim.advance_clock(HANDSHAKE_TIME);
    assert_eq!(sim.counted().sessions, 0);
    sim.receive(connection, &login(&pid("later@nowhere", 8, 77)));
    sim.run_until_idle();
    assert_eq!(sim.calls.pop().unwrap().1.as_str(), "later@nowhere");
}
