//! Signs of life, silence, deadlines, calling again.

use super::*;
use crate::bed::TICK_TIME;
use crate::bed::peer::{atom, binary, hear_messages, packet, tuple};
use crate::limits::STALL_TIME;

const MOMENT: Duration = Duration::from_millis(1);

fn tick() -> Vec<u8> {
    packet(&[])
}

#[test]
fn a_sign_of_life_follows_upon_a_quarter_of_the_tick_time_in_which_nothing_was_said() {
    let (mut bed, line) = connected();
    bed.pass(TICK_TIME / 4 - MOMENT);
    assert!(bed.take_sent(line).is_empty());
    bed.pass(MOMENT);
    assert_eq!(bed.take_sent(line), tick());
    // What else is said is a sign of life as well.
    bed.pass(TICK_TIME / 8);
    bed.receive(
        line,
        &PEER.call_to("net_kernel", &tuple(&[atom("is_auth"), atom("a@h")])),
    );
    bed.settle();
    assert_eq!(hear_messages(&bed.take_sent(line)).len(), 1);
    bed.pass(TICK_TIME / 4 - MOMENT);
    assert!(bed.take_sent(line).is_empty());
    bed.pass(MOMENT);
    assert_eq!(bed.take_sent(line), tick());
}

#[test]
fn a_peer_that_is_silent_for_the_tick_time_is_gone_and_not_before() {
    let (mut bed, line) = connected();
    bed.pass(TICK_TIME - MOMENT);
    assert!(!bed.is_closed(line));
    bed.pass(MOMENT);
    assert!(bed.is_closed(line));
    assert_eq!(bed.counted().refused, refused(Refusal::Silent));
    assert_eq!(bed.counted().nodes, 0);
}

#[test]
fn any_byte_of_a_peer_is_a_sign_of_life() {
    let (mut bed, line) = connected();
    let message = PEER.send_to("any", &tuple(&[atom("nobody"), binary(b"x")]));
    for byte in tick().iter().chain(&message) {
        bed.pass(TICK_TIME - MOMENT);
        assert!(!bed.is_closed(line));
        bed.receive(line, &[*byte]);
    }
    bed.settle();
    assert_eq!(bed.counted().messages, 1);
    assert_eq!(bed.counted().refused, [0; Refusal::KINDS]);
}

#[test]
fn a_peer_that_takes_nothing_of_what_it_is_owed_is_given_up() {
    let (mut bed, line) = connected();
    bed.deaf.insert(line);
    bed.receive(line, &PEER.call_to("router", &atom("pid")));
    bed.settle();
    bed.pass(STALL_TIME / 2);
    bed.receive(line, &tick());
    bed.pass(STALL_TIME / 2 - MOMENT);
    assert!(!bed.is_closed(line));
    bed.pass(MOMENT);
    assert!(bed.is_closed(line));
    assert_eq!(bed.counted().refused, refused(Refusal::Slow));
}

/// How long until the node calls again, after the call that is under way has failed.
fn until_the_next_call(bed: &mut Bed, line: LineId) -> (Duration, LineId) {
    bed.node.ended(line);
    let step = Duration::from_millis(100);
    let mut passed = Duration::ZERO;
    bed.settle();
    while bed.calls.is_empty() {
        bed.pass(step);
        passed += step;
        assert!(passed < Duration::from_secs(60), "the node calls again");
    }
    (passed, bed.calls.pop().unwrap().0)
}

#[test]
fn a_node_that_is_wanted_is_called_again_ever_more_rarely_until_it_answers() {
    let mut bed = Bed::new(NAME, &[PEER.name]);
    bed.settle();
    let (mut line, _) = bed.calls.pop().unwrap();
    let mut waited = Vec::new();
    for _ in 0..9 {
        let (passed, next) = until_the_next_call(&mut bed, line);
        waited.push(passed.as_millis());
        line = next;
    }
    assert_eq!(
        waited,
        [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    );
    assert!(bed.answered(line, 6));
    bed.receive(line, &PEER.answer(true));
    bed.settle();
    assert_eq!(bed.counted().nodes, 1);
    let (passed, _) = until_the_next_call(&mut bed, line);
    assert_eq!(passed.as_millis(), 500);
}

#[test]
fn a_call_that_is_answered_too_late_is_not_wanted() {
    let mut bed = Bed::new(NAME, &[PEER.name]);
    bed.settle();
    let (line, _) = bed.calls.pop().unwrap();
    bed.pass(HANDSHAKE_TIME);
    assert!(!bed.answered(line, 6));
}
