//! What is not taken: counted by its kind, and the next message is.

use super::*;
use crate::bed::peer::{
    atom, binary, hear_messages, integer, list, message, nil, packet, pieces, tuple,
};
use crate::limits::{
    ANSWERS_BYTES_MAX, CALLER_BYTES_MAX, MESSAGE_BYTES_MAX, PACKET_BYTES_ALWAYS, SEQUENCES_MAX,
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
fn a_bad_message_is_counted_and_the_next_is_taken() {
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
        // A spawn request, which is not for a node that does not offer it.
        (number_of_nothing(29), Refusal::Message),
        (number_of_nothing(1 << 40), Refusal::Message),
        (
            message(&tuple(&[integer(1), atom("a"), atom("b")]), None),
            Refusal::Message,
        ),
        (packet(b"x"), Refusal::Message),
        (packet(&[131]), Refusal::Message),
        (packet(&[131, 68]), Refusal::Message),
        // Atoms in the header, and a header of another version.
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

/// One message was too large; the next is answered.
fn assert_passed_by(mut bed: Bed, line: LineId) {
    bed.receive(line, &ask());
    bed.settle();
    assert_eq!(bed.counted().refused, refused(Refusal::TooLarge));
    assert_eq!(hear_messages(&bed.take_sent(line)).len(), 1);
}

#[test]
fn a_message_that_is_too_large_passes_by_and_takes_no_memory() {
    let (mut bed, line) = connected();
    bed.receive(line, &(100_u32 << 20).to_be_bytes());
    let block = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        bed.receive(line, &block);
        assert_eq!(bed.node.held_bytes(), 0);
    }
    assert_passed_by(bed, line);
}

#[test]
fn a_message_too_large_in_pieces_passes_by_as_well() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let payload = binary(&vec![b'x'; 3 * MESSAGE_BYTES_MAX]);
    let (mut bed, line) = connected();
    for piece in pieces(1, 300, &control, &payload) {
        bed.receive(line, &piece);
        assert!(bed.node.held_bytes() <= MESSAGE_BYTES_MAX);
    }
    assert_eq!(bed.node.held_bytes(), 0);
    assert_passed_by(bed, line);
}

#[test]
fn messages_begun_without_end_take_no_more_than_their_bound() {
    let (mut bed, line) = connected();
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let payload = binary(&[b'x'; 60_000]);
    let begun = 2 * SEQUENCES_MAX as u64;
    for sequence in 0..begun {
        bed.receive(line, &pieces(sequence, 2, &control, &payload)[0]);
        assert!(bed.node.held_bytes() <= MESSAGE_BYTES_MAX);
    }
    assert_ne!(bed.counted().refused[Refusal::TooLarge.kind()], 0);
}

#[test]
fn messages_in_pieces_and_whole_ones_share_one_bound() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let body = |bytes: usize| tuple(&[atom("nobody"), binary(&vec![b'x'; bytes])]);
    let (mut bed, line) = connected();
    let most = body(MESSAGE_BYTES_MAX - 100_000);
    let pieces = pieces(1, 200, &control, &most);
    let (last, first) = pieces.split_last().unwrap();
    first.iter().for_each(|piece| bed.receive(line, piece));
    // What is as large as a piece and more is taken between pieces; what is much larger is not.
    for (bytes, taken) in [
        (PACKET_BYTES_ALWAYS - 1000, 1),
        (2 * PACKET_BYTES_ALWAYS, 1),
    ] {
        for piece in message(&control, Some(&body(bytes))).chunks(100_000) {
            bed.receive(line, piece);
            let bound = MESSAGE_BYTES_MAX + PACKET_BYTES_ALWAYS;
            assert!(
                bed.node.held_bytes() <= bound,
                "{} bytes",
                bed.node.held_bytes()
            );
        }
        assert_eq!(bed.counted().messages, taken, "{bytes} bytes");
    }
    assert_eq!(bed.counted().refused[Refusal::TooLarge.kind()], 1);
    bed.receive(line, last);
    assert_eq!((bed.counted().messages, bed.node.held_bytes()), (2, 0));
}

#[test]
fn a_large_message_that_was_taken_is_not_kept() {
    let control = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let payload = binary(&vec![b'x'; MESSAGE_BYTES_MAX / 2]);
    for count in [1, 40] {
        let (mut bed, line) = connected();
        let mut packets = pieces(1, count, &control, &payload);
        if count == 1 {
            packets = vec![message(&control, Some(&payload))];
        }
        for piece in packets.concat().chunks(100_000) {
            bed.receive(line, piece);
        }
        assert_eq!(bed.counted().messages, 1);
        assert_eq!(bed.node.held_bytes(), 0);
    }
}

#[test]
fn a_caller_that_is_longer_than_any_is_not_answered() {
    let (mut bed, line) = connected();
    for (size, answers) in [(CALLER_BYTES_MAX - 100, 1), (CALLER_BYTES_MAX, 0)] {
        let caller = tuple(&[PEER.pid(5), binary(&vec![b'x'; size])]);
        let call = tuple(&[atom("$gen_call"), caller, atom("pid")]);
        bed.receive(line, &PEER.send_to("router", &call));
        bed.settle();
        assert_eq!(hear_messages(&bed.take_sent(line)).len(), answers);
    }
    assert_eq!(bed.counted().refused, refused(Refusal::NotUnderstood));
}

#[test]
fn many_short_questions_are_not_owed_long_answers_without_end() {
    let (mut bed, line) = connected();
    let pairs: Vec<_> = (0..5000)
        .map(|number| tuple(&[atom(&format!("{number:0>100}")), atom("rj")]))
        .collect();
    let add = tuple(&[atom("add_subscriptions"), list(&pairs, &nil())]);
    bed.receive(line, &PEER.call_to("subsmanager", &add));
    bed.settle();
    let question = tuple(&[atom("get_subscribers"), atom("rj")]);
    let questions = PEER.call_to("subsmanager", &question).repeat(800);
    assert!(questions.len() < 128 * 1024, "they come in one block");
    bed.receive(line, &questions);
    let owed = bed.node.lines.get(line).unwrap().out.len();
    assert!(
        (ANSWERS_BYTES_MAX..2 * ANSWERS_BYTES_MAX).contains(&owed),
        "{owed} bytes"
    );
    bed.settle();
    let answers = hear_messages(&bed.take_sent(line));
    assert_eq!(answers.len(), 1 + 800);
    assert!(answers[800].contains("ask again"));
}

#[test]
fn more_connections_than_there_may_be_are_turned_away() {
    let mut bed = Bed::new(NAME, &[]);
    for _ in 0..LINKS_MAX {
        assert!(bed.called().is_some());
    }
    assert!(bed.called().is_none());
    bed.pass(HANDSHAKE_TIME);
    assert!(bed.called().is_some());
}
