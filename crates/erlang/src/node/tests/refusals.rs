//! Refused messages: they are counted by kind, and the connection goes on.

use super::*;
use crate::limits::{
    CALLER_BYTES_MAX, MESSAGE_BYTES_MAX, PACKET_BYTES_ALWAYS, SEQUENCES_MAX, SUBSCRIPTIONS_MAX,
    UNSENT_ANSWERS_BYTES_MAX,
};
use crate::sim::peer::{
    atom, binary, hear_messages, integer, list, message, nil, packet, passed_through, pieces, tuple,
};
use crate::term::TermError;

fn ask() -> Vec<u8> {
    PEER.call_to("router", &atom("pid"))
}

fn to_any(payload: &[u8]) -> Vec<u8> {
    PEER.send_to("any", payload)
}

const TERM: Refusal = Refusal::Term(TermError::Truncated);

#[test]
fn a_malformed_message_is_counted_and_the_next_is_processed() {
    let number_of_nothing = |operation| message(&tuple(&[integer(operation), PEER.pid(5)]), None);
    for (bad, refusal) in [
        (to_any(b"m\xff\xff\xff\xff"), TERM),
        (to_any(b"l\x7f\xff\xff\xffj"), TERM),
        (to_any(&[104, 1].repeat(200)), TERM),
        (to_any(b"P\x40\x00\x00\x00xxxx"), TERM),
        (to_any(b"R\x00"), TERM),
        (to_any(b"w\x01\xff"), TERM),
        (to_any(b"o\x00\x10\x00\x00\x00"), TERM),
        (to_any(b"F\x7f\xf8\x00\x00\x00\x00\x00\x00"), TERM),
        (to_any(b"jj"), Refusal::Message),
        (to_any(b""), TERM),
        (message(&atom("x"), None), Refusal::Message),
        (message(&tuple(&[]), None), Refusal::Message),
        (number_of_nothing(1), Refusal::Message),
        (number_of_nothing(5), Refusal::Message),
        // A spawn request, which this node does not support.
        (number_of_nothing(29), Refusal::Message),
        (number_of_nothing(1 << 40), Refusal::Message),
        (
            message(&tuple(&[integer(1), atom("a"), atom("b")]), None),
            Refusal::Message,
        ),
        (packet(b"x"), Refusal::Message),
        (packet(&[131]), Refusal::Message),
        (packet(&[131, 68]), Refusal::Message),
        // A header with atoms, and a header of another version.
        (packet(&[131, 68, 1, 0, 0]), Refusal::Message),
        (packet(&[130, 68, 0]), Refusal::Message),
        (packet(&[112, 130, 106]), TERM),
        (packet(&[131, 80, 0, 0, 0, 9, 1, 2]), Refusal::Message),
        (packet(&[131, 69, 0, 0]), Refusal::Message),
        (
            packet(&[[131, 69].as_slice(), &[0; 16], &[0]].concat()),
            Refusal::Message,
        ),
        (
            packet(&[[131, 70].as_slice(), &[0; 16]].concat()),
            Refusal::Message,
        ),
    ] {
        let stream = [PEER.call(), bad.clone(), ask()].concat();
        let outcome = alike_at_every_split(Opener::Peer, &stream);
        assert!(outcome.is_up, "{bad:?}");
        assert_eq!(outcome.metrics.refused, refused(refusal), "{bad:?}");
        assert_eq!(outcome.heard.messages.len(), 1, "{bad:?}");
    }
}

/// Asserts that one message was too large and that the next one is answered.
fn assert_skipped(mut sim: SimulatedNode, connection: ConnectionId) {
    sim.receive(connection, &ask());
    sim.run_until_idle();
    assert_eq!(sim.counted().refused, refused(Refusal::TooLarge));
    assert_eq!(hear_messages(&sim.take_sent(connection)).len(), 1);
}

#[test]
fn a_message_that_is_too_large_is_skipped_and_takes_no_memory() {
    let (mut sim, connection) = connected();
    sim.receive(connection, &(100_u32 << 20).to_be_bytes());
    let block = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        sim.receive(connection, &block);
        assert_eq!(sim.held_bytes(), 0);
    }
    assert_skipped(sim, connection);
}

#[test]
fn a_fragmented_message_that_is_too_large_is_skipped() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let payload = binary(&vec![b'x'; 3 * MESSAGE_BYTES_MAX]);
    let (mut sim, connection) = connected();
    for piece in pieces(1, 300, &control, &payload) {
        sim.receive(connection, &piece);
        assert!(sim.held_bytes() <= MESSAGE_BYTES_MAX);
    }
    assert_eq!(sim.held_bytes(), 0);
    assert_skipped(sim, connection);
}

#[test]
fn a_refused_call_is_answered() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("subsmanager")]);
    let call = |request: &[u8]| {
        let caller = tuple(&[PEER.pid(5), integer(77)]);
        tuple(&[atom("$gen_call"), caller, request.to_vec()])
    };
    let large = call(&binary(&vec![b'x'; MESSAGE_BYTES_MAX]));
    let deep = call(&[[104, 1].repeat(200), nil()].concat());
    for (packets, refusal, sentence) in [
        (
            pieces(1, 150, &control, &large),
            Refusal::TooLarge,
            "several calls",
        ),
        (
            vec![message(&control, Some(&large))],
            Refusal::TooLarge,
            "several calls",
        ),
        (pieces(1, 2, &control, &deep), TERM, "deeper than 100"),
        (
            vec![message(&control, Some(&deep))],
            TERM,
            "deeper than 100",
        ),
    ] {
        let (mut sim, connection) = connected();
        for piece in packets.concat().chunks(100_000) {
            sim.receive(connection, piece);
        }
        sim.run_until_idle();
        assert_eq!(sim.counted().refused, refused(refusal));
        assert_eq!(sim.held_bytes(), 0);
        let answers = hear_messages(&sim.take_sent(connection));
        let [answer] = &answers[..] else {
            panic!("one answer to {refusal:?}: {answers:?}");
        };
        assert!(
            answer.contains("77") && answer.contains(sentence),
            "{answer}"
        );
    }
}

/// A call as a payload, whose answer contains `77`.
fn call_77(request: &[u8]) -> Vec<u8> {
    let caller = tuple(&[PEER.pid(5), integer(77)]);
    tuple(&[atom("$gen_call"), caller, request.to_vec()])
}

/// A call of 70,000 bytes, which a BEAM cuts into two fragments.
fn long_call() -> Vec<u8> {
    call_77(&binary(&vec![b'x'; 70_000]))
}

/// More subscriptions than are held.
fn long_list() -> Vec<u8> {
    let pair = tuple(&[integer(1), integer(2)]);
    let list = list(&vec![pair; SUBSCRIPTIONS_MAX + 1], &nil());
    call_77(&tuple(&[atom("add_subscriptions"), list]))
}

fn to(name: &str) -> Vec<u8> {
    tuple(&[integer(6), PEER.pid(5), atom(""), atom(name)])
}

/// Receives these packets and returns the answers to call 77. The connection must go on.
fn answers_to_77(sim: &mut SimulatedNode, connection: ConnectionId, packets: &[u8]) -> Vec<String> {
    for piece in packets.chunks(100_000) {
        sim.receive(connection, piece);
        sim.run_until_idle();
    }
    let mut answers = hear_messages(&sim.take_sent(connection));
    sim.receive(connection, &ask());
    sim.run_until_idle();
    assert_eq!(hear_messages(&sim.take_sent(connection)).len(), 1);
    answers.retain(|answer| answer.contains("{77,"));
    answers
}

/// The messages of two processes may have the same number, a fragment may be missing, or the first
/// may be the last. Without an answer, a caller with the timeout `infinity` would wait for ever.
#[test]
fn a_call_whose_fragments_are_out_of_order_is_answered() {
    let sub = to("subsmanager");
    let [call, list] = [long_call(), long_list()].map(|call| pieces(1, 40, &sub, &call));
    let without = |packets: &[Vec<u8>], at: usize| {
        let mut packets = packets.to_vec();
        packets.remove(at);
        packets.concat()
    };
    let mut of_no_fragments = call[0].clone();
    of_no_fragments[4 + 2 + 8..][..8].fill(0);
    for (packets, answers) in [
        // A fragment is missing: the second, a later one, the last but one.
        (without(&call, 1), 1),
        (without(&call, 20), 1),
        (without(&call, call.len() - 2), 1),
        (without(&list, 20), 1),
        // The first fragment arrives twice: one call goes on, the other is refused.
        ([call[0].clone(), call.concat()].concat(), 2),
        ([call[0].clone(), list.concat()].concat(), 2),
        ([list[0].clone(), list.concat()].concat(), 2),
        (of_no_fragments, 1),
    ] {
        let (mut sim, connection) = connected();
        let heard = answers_to_77(&mut sim, connection, &packets);
        assert_eq!(heard.len(), answers, "{heard:?}");
        assert_ne!(sim.counted().refused[Refusal::Message.kind()], 0);
    }
}

#[test]
fn a_call_beyond_the_bound_on_large_messages_is_answered() {
    let (mut sim, connection) = connected();
    let small = tuple(&[atom("nobody"), binary(&[b'x'; 100])]);
    for sequence in 0..SEQUENCES_MAX as u64 {
        sim.receive(
            connection,
            &pieces(100 + sequence, 2, &to("any"), &small)[0],
        );
    }
    assert_eq!(sim.counted().refused, [0; Refusal::KINDS]);
    for call in [long_call(), long_list()] {
        let packets = pieces(1, 40, &to("subsmanager"), &call).concat();
        let heard = answers_to_77(&mut sim, connection, &packets);
        let [answer] = &heard[..] else {
            panic!("one answer: {heard:?}");
        };
        assert!(answer.contains("too many large ones"), "{answer}");
    }
    // When one of the messages is complete, there is room again.
    sim.receive(connection, &pieces(100, 2, &to("any"), &small)[1]);
    let packets = pieces(1, 40, &to("subsmanager"), &long_call()).concat();
    let heard = answers_to_77(&mut sim, connection, &packets);
    assert!(heard[0].contains("subsmanager takes"), "{heard:?}");
}

#[test]
fn a_call_to_no_process_is_answered() {
    let call = call_77(&atom("pid"));
    let with_rest = [&call[..], &nil()].concat();
    let passed_with_rest = passed_through(&to("router"), Some(&with_rest));
    // A call in a tuple with a four-byte arity, which no BEAM sends.
    let wide = [&[105, 0, 0, 0, 3][..], &call[2..], &[255]].concat();
    let unknown = tuple(&[integer(99), PEER.pid(5), atom("router")]);
    let no_name = tuple(&[integer(6), PEER.pid(5), atom(""), integer(1)]);
    for (packet, refusal) in [
        (message(&to("router"), Some(&with_rest)), Refusal::Message),
        (
            pieces(1, 3, &to("router"), &with_rest).concat(),
            Refusal::Message,
        ),
        (passed_with_rest, TERM),
        (message(&to("router"), Some(&wide)), Refusal::Message),
        (message(&unknown, Some(&call)), Refusal::Message),
        (passed_through(&unknown, Some(&call)), Refusal::Message),
        (pieces(1, 3, &unknown, &call).concat(), Refusal::Message),
        (message(&no_name, Some(&call)), Refusal::Message),
        (message(&to("nobody"), Some(&call)), Refusal::NotUnderstood),
        (
            pieces(1, 3, &to("nobody"), &call).concat(),
            Refusal::NotUnderstood,
        ),
    ] {
        let stream = [PEER.call(), packet.clone(), ask()].concat();
        let outcome = alike_at_every_split(Opener::Peer, &stream);
        assert_eq!(outcome.metrics.refused, refused(refusal), "{packet:?}");
        let heard = outcome.heard.messages;
        assert_eq!(heard.len(), 2, "{packet:?}: {heard:?}");
        assert!(heard[0].contains("{77,{error,"), "{heard:?}");
    }
}

/// No BEAM sends such a fragment: they have 64 KiB.
#[test]
fn a_call_whose_first_fragment_is_too_large_is_answered() {
    let large = call_77(&binary(&vec![b'x'; 2 * MESSAGE_BYTES_MAX]));
    let (mut sim, connection) = connected();
    let first = pieces(1, 2, &to("router"), &large).swap_remove(0);
    assert!(first.len() > MESSAGE_BYTES_MAX);
    let heard = answers_to_77(&mut sim, connection, &first);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(sim.counted().refused, refused(Refusal::TooLarge));
}

#[test]
fn a_refused_message_that_is_no_call_is_not_answered() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("subsmanager")]);
    let large = binary(&vec![b'x'; MESSAGE_BYTES_MAX]);
    let caller = tuple(&[PEER.pid(5), integer(77)]);
    for payload in [
        tuple(&[atom("$gen_cast"), large.clone()]),
        tuple(&[atom("call"), caller, large]),
    ] {
        let (mut sim, connection) = connected();
        for piece in pieces(1, 150, &control, &payload) {
            sim.receive(connection, &piece);
        }
        sim.run_until_idle();
        assert_eq!(sim.counted().refused, refused(Refusal::TooLarge));
        assert!(hear_messages(&sim.take_sent(connection)).is_empty());
    }
}

#[test]
fn incomplete_messages_take_bounded_memory() {
    let (mut sim, connection) = connected();
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let payload = binary(&[b'x'; 60_000]);
    let begun = 2 * SEQUENCES_MAX as u64;
    for sequence in 0..begun {
        sim.receive(connection, &pieces(sequence, 2, &control, &payload)[0]);
        assert!(sim.held_bytes() <= MESSAGE_BYTES_MAX);
    }
    assert_ne!(sim.counted().refused[Refusal::TooLarge.kind()], 0);
}

#[test]
fn fragmented_and_whole_messages_share_one_bound() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let body = |bytes: usize| tuple(&[atom("nobody"), binary(&vec![b'x'; bytes])]);
    let (mut sim, connection) = connected();
    let most = body(MESSAGE_BYTES_MAX - 100_000);
    let pieces = pieces(1, 200, &control, &most);
    let (last, first) = pieces.split_last().unwrap();
    first
        .iter()
        .for_each(|piece| sim.receive(connection, piece));
    // A message of up to [`PACKET_BYTES_ALWAYS`] is accepted between fragments; a larger one is
    // not.
    for (bytes, taken) in [
        (PACKET_BYTES_ALWAYS - 1000, 1),
        (2 * PACKET_BYTES_ALWAYS, 1),
    ] {
        for piece in message(&control, Some(&body(bytes))).chunks(100_000) {
            sim.receive(connection, piece);
            let bound = MESSAGE_BYTES_MAX + PACKET_BYTES_ALWAYS;
            assert!(sim.held_bytes() <= bound, "{} bytes", sim.held_bytes());
        }
        assert_eq!(sim.counted().messages, taken, "{bytes} bytes");
    }
    assert_eq!(sim.counted().refused[Refusal::TooLarge.kind()], 1);
    sim.receive(connection, last);
    assert_eq!((sim.counted().messages, sim.held_bytes()), (2, 0));
}

#[test]
fn a_processed_large_message_is_freed() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let payload = binary(&vec![b'x'; MESSAGE_BYTES_MAX / 2]);
    for count in [1, 40] {
        let (mut sim, connection) = connected();
        let mut packets = pieces(1, count, &control, &payload);
        if count == 1 {
            packets = vec![message(&control, Some(&payload))];
        }
        for piece in packets.concat().chunks(100_000) {
            sim.receive(connection, piece);
        }
        assert_eq!(sim.counted().messages, 1);
        assert_eq!(sim.held_bytes(), 0);
    }
}

#[test]
fn a_caller_that_is_too_long_is_not_answered() {
    let (mut sim, connection) = connected();
    for (size, answers) in [(CALLER_BYTES_MAX - 100, 1), (CALLER_BYTES_MAX, 0)] {
        let caller = tuple(&[PEER.pid(5), binary(&vec![b'x'; size])]);
        let call = tuple(&[atom("$gen_call"), caller, atom("pid")]);
        sim.receive(connection, &PEER.send_to("router", &call));
        sim.run_until_idle();
        assert_eq!(hear_messages(&sim.take_sent(connection)).len(), answers);
    }
    assert_eq!(sim.counted().refused, refused(Refusal::NotUnderstood));
}

#[test]
fn an_answer_that_would_be_too_long_is_an_error() {
    let (mut sim, connection) = connected();
    let graph = sim.router.graph();
    let changes = (0..70_000).map(|number| graph::Change::Subscribe {
        subscriber: graph::Id::parse(&format!("u{number:0>127}")).unwrap(),
        subject: graph::Id::parse("rj").unwrap(),
    });
    graph.submit(changes.collect(), |_| {});
    let question = tuple(&[atom("get_subscribers"), atom("rj")]);
    sim.receive(connection, &PEER.call_to("subsmanager", &question));
    sim.run_until_idle();
    let sent = sim.take_sent(connection);
    assert!(sent.len() < 1000, "{} bytes", sent.len());
    let heard = hear_messages(&sent);
    assert!(heard[0].contains("too many for one answer"), "{heard:?}");
}

#[test]
fn many_short_calls_with_long_answers_are_bounded() {
    let (mut sim, connection) = connected();
    let pairs: Vec<_> = (0..5000)
        .map(|number| tuple(&[atom(&format!("{number:0>100}")), atom("rj")]))
        .collect();
    let add = tuple(&[atom("add_subscriptions"), list(&pairs, &nil())]);
    sim.receive(connection, &PEER.call_to("subsmanager", &add));
    sim.run_until_idle();
    let question = tuple(&[atom("get_subscribers"), atom("rj")]);
    let questions = PEER.call_to("subsmanager", &question).repeat(800);
    assert!(questions.len() < 128 * 1024, "they come in one block");
    sim.receive(connection, &questions);
    let owed = sim
        .node
        .connections
        .get(connection)
        .unwrap()
        .send_buffer
        .len();
    assert!(
        (UNSENT_ANSWERS_BYTES_MAX..2 * UNSENT_ANSWERS_BYTES_MAX).contains(&owed),
        "{owed} bytes"
    );
    sim.run_until_idle();
    let answers = hear_messages(&sim.take_sent(connection));
    assert_eq!(answers.len(), 1 + 800);
    assert!(answers[800].contains("ask again"));
}
