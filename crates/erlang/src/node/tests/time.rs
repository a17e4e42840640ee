//! Ticks, silence, deadlines, reconnects.

use super::*;
use crate::limits::STALL_TIME;
use crate::sim::TICK_TIME;
use crate::sim::peer::{atom, binary, hear_messages, packet, tuple};

const MOMENT: Duration = Duration::from_millis(1);

/// Latest time after a deadline at which a sleeping node acts.
const LATENESS_MAX: Duration = DEADLINE_CHECK_INTERVAL;

fn tick() -> Vec<u8> {
    packet(&[])
}

#[test]
fn a_tick_is_sent_after_a_quarter_of_the_tick_time_without_data() {
    let (mut sim, connection) = connected();
    sim.advance_clock(TICK_TIME / 4 - MOMENT);
    assert!(sim.take_sent(connection).is_empty());
    sim.advance_clock(LATENESS_MAX);
    assert_eq!(sim.take_sent(connection), tick());
    // Any other message replaces a tick.
    sim.advance_clock(TICK_TIME / 8);
    sim.receive(
        connection,
        &PEER.call_to("net_kernel", &tuple(&[atom("is_auth"), atom("a@h")])),
    );
    sim.run_until_idle();
    assert_eq!(hear_messages(&sim.take_sent(connection)).len(), 1);
    sim.advance_clock(TICK_TIME / 4 - MOMENT);
    assert!(sim.take_sent(connection).is_empty());
    sim.advance_clock(LATENESS_MAX);
    assert_eq!(sim.take_sent(connection), tick());
}

#[test]
fn a_silent_peer_is_disconnected_exactly_after_the_tick_time() {
    let (mut sim, connection) = connected();
    sim.advance_clock(TICK_TIME - MOMENT);
    assert!(!sim.is_closed(connection));
    sim.advance_clock(LATENESS_MAX);
    assert!(sim.is_closed(connection));
    assert_eq!(sim.counted().refused, refused(Refusal::Silent));
    assert_eq!(sim.counted().nodes, 0);
}

#[test]
fn any_byte_of_a_peer_counts_as_a_tick() {
    let (mut sim, connection) = connected();
    let message = PEER.send_to("any", &tuple(&[atom("nobody"), binary(b"x")]));
    for byte in tick().iter().chain(&message) {
        sim.advance_clock(TICK_TIME - MOMENT);
        assert!(!sim.is_closed(connection));
        sim.receive(connection, &[*byte]);
    }
    sim.run_until_idle();
    assert_eq!(sim.counted().messages, 1);
    assert_eq!(sim.counted().refused, [0; Refusal::KINDS]);
}

#[test]
fn a_peer_that_does_not_read_is_disconnected() {
    let (mut sim, connection) = connected();
    sim.block(connection);
    sim.receive(connection, &PEER.call_to("router", &atom("pid")));
    sim.run_until_idle();
    sim.advance_clock(STALL_TIME / 2);
    sim.receive(connection, &tick());
    sim.advance_clock(STALL_TIME / 2 - MOMENT);
    assert!(!sim.is_closed(connection));
    sim.advance_clock(LATENESS_MAX);
    assert!(sim.is_closed(connection));
    assert_eq!(sim.counted().refused, refused(Refusal::Slow));
}

/// Lets the dial in progress fail; returns the time until the next dial, and its connection.
fn next_dial(sim: &mut SimulatedNode, connection: ConnectionId) -> (Duration, ConnectionId) {
    sim.wake().ended(connection);
    let step = Duration::from_millis(100);
    let mut passed = Duration::ZERO;
    sim.run_until_idle();
    while sim.calls.is_empty() {
        sim.advance_clock(step);
        passed += step;
        assert!(passed < Duration::from_secs(60), "the node dials again");
    }
    (passed, sim.calls.pop().unwrap().0)
}

#[test]
fn a_permanent_peer_is_dialed_again_with_growing_delays() {
    let mut sim = SimulatedNode::new(NAME, &[PEER.name]);
    sim.run_until_idle();
    let (mut connection, _) = sim.calls.pop().unwrap();
    let mut waited = Vec::new();
    for _ in 0..9 {
        let (passed, next) = next_dial(&mut sim, connection);
        waited.push(passed.as_millis());
        connection = next;
    }
    assert_eq!(
        waited,
        [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    );
    assert!(sim.complete_dial(connection, 6));
    sim.receive(connection, &PEER.answer(true));
    sim.run_until_idle();
    assert_eq!(sim.counted().nodes, 1);
    let (passed, _) = next_dial(&mut sim, connection);
    assert_eq!(passed.as_millis(), 500);
}

#[test]
fn a_dial_that_is_answered_too_late_is_dropped() {
    let mut sim = SimulatedNode::new(NAME, &[PEER.name]);
    sim.run_until_idle();
    let (connection, _) = sim.calls.pop().unwrap();
    sim.advance_clock(HANDSHAKE_TIME);
    assert!(!sim.complete_dial(connection, 6));
}
