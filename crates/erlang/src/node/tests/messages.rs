//! Messages: whole and in fragments, in all encodings, and their answers.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::sim::Around;
use crate::sim::peer::{
    atom, binary, hear_messages, integer, list, message, nil, passed_through, pieces, tuple,
};

fn control_to(name: &str) -> Vec<u8> {
    tuple(&[integer(6), PEER.pid(5), atom(""), atom(name)])
}

fn call(request: &[u8]) -> Vec<u8> {
    let from = tuple(&[PEER.pid(5), PEER.reference(1)]);
    tuple(&[atom("$gen_call"), from, request.to_vec()])
}

/// A call that subscribes 1 and 2 to `subject`. It is answered in a later turn than a query.
fn subscribe(subject: &str) -> Vec<u8> {
    let pair = |subscriber| tuple(&[integer(subscriber), atom(subject)]);
    let list = list(&[pair(1), pair(2)], &nil());
    call(&tuple(&[atom("add_subscriptions"), list]))
}

fn subscribers(subject: &str) -> Vec<u8> {
    PEER.call_to(
        "subsmanager",
        &tuple(&[atom("get_subscribers"), atom(subject)]),
    )
}

fn answer(reply: &str) -> String {
    format!("{{2,'',<peer@h.5.0>}} ! {{#Ref<peer@h.0.0.1>,{reply}}}")
}

#[test]
fn a_message_in_any_number_of_fragments_is_one_message() {
    let control = control_to("subsmanager");
    for count in [1, 2, 3, 7, 1000] {
        let mut packets = pieces(count as u64, count, &control, &subscribe("s"));
        packets.push(subscribers("s"));
        assert_eq!(
            heard(&packets),
            [answer("[1,2]"), answer("ok")],
            "{count} pieces"
        );
    }
}

#[test]
fn fragments_of_messages_may_alternate() {
    let control = control_to("subsmanager");
    let first = pieces(1, 4, &control, &subscribe("s"));
    let second = pieces(u64::MAX, 3, &control, &subscribe("t"));
    let packets = [
        &first[0],
        &second[0],
        &subscribers("s"),
        &first[1],
        &first[2],
        &second[1],
        &second[2],
        &subscribers("t"),
        &first[3],
        &subscribers("s"),
    ];
    let expected = ["[]", "[1,2]", "[1,2]", "ok", "ok"].map(answer);
    assert_eq!(heard(&packets.map(Clone::clone)), expected);
}

#[test]
fn messages_with_and_without_header_have_the_same_effect() {
    let control = control_to("subsmanager");
    let packets = [
        passed_through(&control, Some(&subscribe("s"))),
        message(&control, Some(&subscribe("s"))),
        subscribers("s"),
    ];
    assert_eq!(heard(&packets), ["[1,2]", "ok", "ok"].map(answer));
}

#[test]
fn a_peer_without_fragments_is_answered_without_header() {
    let plain = Peer {
        flags: PEER.flags & !0x80_0000,
        ..PEER
    };
    let stream = [
        plain.call(),
        passed_through(&control_to("router"), Some(&call(&atom("pid")))),
    ];
    let (mut sim, connection) = open(Opener::Peer);
    sim.receive(connection, &stream.concat());
    sim.run_until_idle();
    let sent = sim.take_sent(connection);
    assert_eq!(hear(&sent).messages, [answer("<encke@h.2.0>")]);
    let handshake: usize = hear(&sent)
        .handshake
        .iter()
        .map(|said| said.len() + 2)
        .sum();
    assert_eq!(sent[handshake + 4], 112);
}

#[test]
fn messages_to_a_pid_reach_its_process() {
    let to_router = |operation, first: Vec<u8>| {
        let to = crate::sim::peer::pid(NAME, 2, crate::sim::CREATION);
        message(
            &tuple(&[integer(operation), first, to]),
            Some(&call(&atom("pid"))),
        )
    };
    // SEND and SEND_SENDER.
    let packets = [to_router(2, atom("")), to_router(22, PEER.pid(5))];
    assert_eq!(
        heard(&packets),
        ["<encke@h.2.0>", "<encke@h.2.0>"].map(answer)
    );
    // To a process of an earlier run of the node, and to one that does not exist.
    let lost = [(2, crate::sim::CREATION - 1), (77, crate::sim::CREATION)].map(|(id, creation)| {
        let to = crate::sim::peer::pid(NAME, id, creation);
        message(
            &tuple(&[integer(2), atom(""), to]),
            Some(&call(&atom("pid"))),
        )
    });
    let outcome = alike_at_every_split(Opener::Peer, &[PEER.call(), lost.concat()].concat());
    let told = &outcome.heard.messages;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|told| told.contains("no such process")));
    assert_eq!(outcome.metrics.refused[Refusal::NotUnderstood.kind()], 2);
}

#[test]
fn unknown_messages_are_dropped_and_unknown_calls_are_answered() {
    let (mut sim, connection) = connected();
    for packet in [
        PEER.send_to("nobody", &atom("hello")),
        PEER.send_to("router", &atom("hello")),
        PEER.send_to("any", &tuple(&[atom("id"), integer(5)])),
    ] {
        sim.receive(connection, &packet);
    }
    sim.run_until_idle();
    assert_eq!(sim.counted().refused[Refusal::NotUnderstood.kind()], 3);
    assert!(sim.take_sent(connection).is_empty());
    let told = heard(&[PEER.call_to("router", &atom("what"))]);
    assert!(
        told[0].contains(",{error,<<\"router takes {send, Id, Msg}"),
        "{told:?}"
    );
}

#[test]
fn a_call_with_an_alias_is_answered_to_it_if_the_peer_supports_aliases() {
    let tag = list(&[atom("alias")], &PEER.reference(4));
    let request = tuple(&[atom("$gen_call"), tuple(&[PEER.pid(5), tag]), atom("pid")]);
    let call = message(&control_to("router"), Some(&request));
    let reply = "{[alias|#Ref<peer@h.0.0.4>],<encke@h.2.0>}";
    let aliased = format!("{{33,<peer@h.5.0>,#Ref<peer@h.0.0.4>}} ! {reply}");
    assert_eq!(heard(std::slice::from_ref(&call)), [aliased]);
    let without = Peer {
        flags: PEER.flags & !(1 << 35),
        ..PEER
    };
    let outcome = alike_at_every_split(Opener::Peer, &[without.call(), call].concat());
    assert_eq!(
        outcome.heard.messages,
        [format!("{{2,'',<peer@h.5.0>}} ! {reply}")]
    );
}

#[test]
fn bodies_of_messages_to_any_are_iolists() {
    let login = tuple(&[atom("login"), integer(123), PEER.pid(5)]);
    let body = list(&[binary(b"He"), integer(108)], &binary(b"lo"));
    let packets = [
        PEER.call_to("router", &login),
        PEER.send_to("any", &tuple(&[binary(b"123"), body])),
    ];
    let heard = heard(&packets);
    assert_eq!(heard[1], answer("ok"));
    assert_eq!(
        heard[2..],
        ["{2,'',<peer@h.5.0>} ! {router_msg,<<\"Hello\">>}"]
    );
}

#[test]
fn ids_of_a_large_call_come_back_unchanged_and_a_refused_call_leaves_none() {
    let mut pairs: Vec<_> = (0..30_000)
        .map(|number| tuple(&[atom(&format!("user_{number:0>60}")), atom("rj")]))
        .collect();
    let add = |pairs: &[Vec<u8>]| {
        let list = list(pairs, &nil());
        PEER.call_to("subsmanager", &tuple(&[atom("add_subscriptions"), list]))
    };
    let (mut sim, connection) = connected();
    pairs.push(atom("no_pair"));
    sim.receive(connection, &add(&pairs));
    sim.run_until_idle();
    let refused = hear_messages(&sim.take_sent(connection));
    assert!(refused[0].contains("subscription 30001: "), "{refused:?}");
    assert!(sim.node.id_terms.records().is_empty());
    pairs.pop();
    sim.receive(connection, &add(&pairs));
    sim.run_until_idle();
    let question = tuple(&[atom("get_subscribers"), atom("rj")]);
    sim.take_sent(connection);
    sim.receive(connection, &PEER.call_to("subsmanager", &question));
    sim.run_until_idle();
    let answer = hear_messages(&sim.take_sent(connection)).remove(0);
    assert_eq!(answer.matches("user_").count(), pairs.len());
    assert!(!answer.contains("<<"), "an atom came back as a binary");
}

#[test]
fn a_paused_server_returns_no_pid_to_register() {
    let paused = Arc::new(AtomicBool::new(true));
    let around = Around {
        paused: Arc::clone(&paused),
        ..Around::default()
    };
    let mut sim = SimulatedNode::with(NAME, &[], around);
    let connection = sim.accept_peer().unwrap();
    sim.receive(connection, &PEER.call());
    sim.run_until_idle();
    sim.take_sent(connection);
    let mut ask = |name: &str| {
        sim.receive(connection, &PEER.call_to(name, &atom("pid")));
        sim.run_until_idle();
        hear_messages(&sim.take_sent(connection))
    };
    for name in ["router", "subsmanager"] {
        let [refused] = &ask(name)[..] else {
            panic!("one answer");
        };
        assert!(refused.contains("use another node"), "{refused}");
    }
    paused.store(false, Ordering::Relaxed);
    assert_eq!(ask("router"), [answer("<encke@h.2.0>")]);
    assert_eq!(ask("subsmanager"), [answer("<encke@h.3.0>")]);
}
