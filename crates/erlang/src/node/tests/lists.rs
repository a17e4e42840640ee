//! Lists of subscriptions of any length.

use graph::{Effect, Id};
use replication::{Applied, CommandResult, Position};

use super::logged::Cluster;
use super::*;
use crate::limits::{LIST_PART_CHANGES, LIST_STALL_TIME, LISTS_PER_NODE_MAX, SUBSCRIPTIONS_MAX};
use crate::sim::TICK_TIME;
use crate::sim::peer::{
    atom, hear_messages, integer, list, message, nil, passed_through, pieces, tuple,
};

const LENGTH: usize = SUBSCRIPTIONS_MAX + 1;

/// Returns the number of changes in parts that are not submitted.
fn held_changes(sim: &SimulatedNode) -> usize {
    let parts = sim.node.lists.open.iter().flat_map(|list| &list.parts);
    parts.map(|part| part.changes.len()).sum()
}

fn control(to: &str) -> Vec<u8> {
    tuple(&[integer(6), PEER.pid(5), atom(""), atom(to)])
}

fn call(verb: &str, elements: &[Vec<u8>], tail: &[u8]) -> Vec<u8> {
    let caller = tuple(&[PEER.pid(5), PEER.reference(1)]);
    let request = tuple(&[atom(verb), list(elements, tail)]);
    tuple(&[atom("$gen_call"), caller, request])
}

/// Subscriptions of a hundred subscribers, each repeated many times.
fn elements(subject: &str) -> Vec<Vec<u8>> {
    let pair = |number: i64| tuple(&[integer(number % 100), atom(subject)]);
    (0..LENGTH as i64).map(pair).collect()
}

fn subscribers(sim: &SimulatedNode, subject: &str) -> usize {
    let graph = sim.router.graph();
    let mut keys = Vec::new();
    if let Some(key) = graph.find(&Id::parse(subject).unwrap()) {
        graph.subscribers(key, None, 1000, &mut keys);
    }
    keys.len()
}

fn answers(sim: &mut SimulatedNode, connection: ConnectionId) -> Vec<String> {
    sim.run_until_idle();
    hear_messages(&sim.take_sent(connection))
}

fn reply(reply: &str) -> String {
    format!("{{2,'',<peer@h.5.0>}} ! {{#Ref<peer@h.0.0.1>,{reply}}}")
}

#[test]
fn a_list_of_any_length_is_applied_at_every_split() {
    let elements = elements("rj");
    for (fragments, bytes) in [(2, 1 << 20), (10, 1000), (977, 77_777)] {
        let (mut sim, connection) = connected();
        for (verb, remain) in [("add_subscriptions", 100), ("remove_subscriptions", 0)] {
            let call = call(verb, &elements, &nil());
            let packets = pieces(1, fragments, &control("subsmanager"), &call).concat();
            for piece in packets.chunks(bytes) {
                sim.receive(connection, piece);
                sim.run_until_idle();
                let held = held_changes(&sim);
                assert!(held < LIST_PART_CHANGES + (1 << 20) / 6, "{held}");
            }
            assert_eq!(answers(&mut sim, connection), [reply("ok")]);
            assert_eq!(subscribers(&sim, "rj"), remain);
        }
        assert_eq!(sim.counted().refused, [0; Refusal::KINDS]);
        assert_eq!(sim.held_bytes(), 0);
    }
}

/// A node sends a message in one packet while it does not yet know the flags of this node.
#[test]
fn a_list_in_one_packet_is_applied_at_every_split() {
    let elements = elements("rj");
    let passed_through = |call: &[u8]| passed_through(&control("subsmanager"), Some(call));
    let with_header = |call: &[u8]| message(&control("subsmanager"), Some(call));
    for bytes in [1000, 77_777, 1 << 17, 1 << 20] {
        let (mut sim, connection) = connected();
        let mut changed = |packet: Vec<u8>| {
            for piece in packet.chunks(bytes) {
                sim.receive(connection, piece);
                assert!(sim.held_bytes() < 1 << 14);
                sim.run_until_idle();
                let held = held_changes(&sim);
                assert!(held < LIST_PART_CHANGES + bytes / 6, "{held}");
            }
            assert_eq!(answers(&mut sim, connection), [reply("ok")]);
            assert_eq!(sim.counted().refused, [0; Refusal::KINDS]);
            subscribers(&sim, "rj")
        };
        let add = call("add_subscriptions", &elements, &nil());
        let remove = call("remove_subscriptions", &elements, &nil());
        assert_eq!(changed(passed_through(&add)), 100);
        assert_eq!(changed(with_header(&remove)), 0);
        assert_eq!(changed(with_header(&add)), 100);
    }
}

#[test]
fn an_invalid_list_in_one_packet_is_answered_and_its_rest_is_skipped() {
    let mut bad = elements("rj");
    bad[5000] = atom("no_pair");
    let bad = call("add_subscriptions", &bad, &nil());
    let good = call("add_subscriptions", &elements("other"), &nil());
    let short = call("add_subscriptions", &elements("other")[..9], &nil());
    let (mut sim, connection) = connected();
    for (to, call, sentence) in [
        ("subsmanager", &bad, "subscription 5001: it is neither"),
        ("router", &good, "sent to subsmanager"),
        (
            "subsmanager",
            &good[..good.len() - 1].to_vec(),
            "ends within the list",
        ),
    ] {
        let packet = passed_through(&control(to), Some(call));
        for piece in packet.chunks(1 << 16) {
            sim.receive(connection, piece);
        }
        let heard = answers(&mut sim, connection);
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains(sentence), "{heard:?}");
        sim.receive(
            connection,
            &passed_through(&control("subsmanager"), Some(&short)),
        );
        assert_eq!(answers(&mut sim, connection), [reply("ok")]);
        assert_eq!(held_changes(&sim), 0);
    }
    assert!(subscribers(&sim, "rj") <= 100);
}

/// A cast is not answered, so its sender may send the next one, which has the same number, before
/// the first is on disk.
#[test]
fn a_list_that_waits_for_the_log_gets_no_piece_of_the_next_one() {
    for in_packets in [true, false] {
        let mut cluster = Cluster::new();
        let request = |subject: &str| {
            let elements = elements(subject);
            let request = tuple(&[atom("add_subscriptions"), list(&elements, &nil())]);
            let cast = tuple(&[atom("$gen_cast"), request]);
            match in_packets {
                true => vec![passed_through(&control("subsmanager"), Some(&cast))],
                false => pieces(1, 20, &control("subsmanager"), &cast),
            }
        };
        let packets = [request("rj"), request("other")].concat().concat();
        let mut pieces = packets.chunks(1 << 12);
        let mut changes = 0;
        loop {
            while cluster.may_read()
                && let Some(piece) = pieces.next()
            {
                cluster.say(piece);
            }
            let appended = cluster.appended();
            if appended.is_empty() {
                break;
            }
            for (commands, _, done) in appended {
                changes += commands.len();
                let effect = |_| CommandResult::Change(Ok(Effect::default()));
                done(Ok(Applied {
                    first: Position::default(),
                    results: commands.into_iter().map(effect).collect(),
                    nodes: 1,
                    missing: Vec::new(),
                }));
            }
            assert_eq!(
                cluster
                    .heard()
                    .iter()
                    .filter(|said| !said.is_empty())
                    .count(),
                0
            );
        }
        assert_eq!(changes, 2 * LENGTH);
    }
}

#[test]
fn the_error_of_an_invalid_list_has_the_position_and_the_number_of_changes_made() {
    let good = elements("rj");
    let mut bad = good.clone();
    *bad.last_mut().unwrap() = atom("no_pair");
    let sub = control("subsmanager");
    for (packets, sentence) in [
        (
            pieces(1, 9, &sub, &call("add_subscriptions", &bad, &nil())),
            "subscription 100001: it is neither",
        ),
        (
            pieces(1, 9, &sub, &call("add_subscriptions", &good, &atom("x"))),
            "does not end with []",
        ),
        (
            {
                let whole = call("add_subscriptions", &good, &nil());
                pieces(1, 9, &sub, &whole[..whole.len() - 1])
            },
            "the message ends within the list",
        ),
        (
            {
                let whole = call("add_subscriptions", &good, &nil());
                let mut pieces = pieces(1, 9, &sub, &whole);
                pieces.remove(5);
                pieces
            },
            "a fragment of the list is missing",
        ),
    ] {
        let (mut sim, connection) = connected();
        for packet in packets {
            sim.receive(connection, &packet);
            sim.run_until_idle();
        }
        let heard = answers(&mut sim, connection);
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains(sentence) && heard[0].contains("at least the first"));
        assert_eq!(subscribers(&sim, "rj"), 100);
        assert_eq!(held_changes(&sim), 0);
        // The same process may call again with the same number.
        let good = call("remove_subscriptions", &good, &nil());
        for packet in pieces(1, 3, &sub, &good) {
            sim.receive(connection, &packet);
        }
        assert_eq!(answers(&mut sim, connection), [reply("ok")]);
        assert_eq!(subscribers(&sim, "rj"), 0);
    }
}

#[test]
fn a_stalled_list_is_answered_and_makes_room() {
    let (mut sim, connection) = connected();
    let whole = call("add_subscriptions", &elements("rj"), &nil());
    let first = |sequence| pieces(sequence, 20, &control("subsmanager"), &whole).swap_remove(0);
    for sequence in 0..LISTS_PER_NODE_MAX as u64 {
        sim.receive(connection, &first(sequence));
    }
    assert_eq!(answers(&mut sim, connection), Vec::<String>::new());
    sim.receive(connection, &first(99));
    let heard = answers(&mut sim, connection);
    assert!(
        heard[0].contains("call again when one of them"),
        "{heard:?}"
    );
    assert_eq!(sim.counted().refused, refused(Refusal::TooLarge));
    // The peer sends ticks, so it is not silent.
    let half = LIST_STALL_TIME / 2;
    for _ in 0..2 {
        assert!(half < TICK_TIME);
        sim.take_sent(connection);
        sim.receive(connection, &[0; 4]);
        sim.advance_clock(half);
    }
    let heard = answers(&mut sim, connection).join("");
    assert_eq!(
        heard.matches("no more of the list").count(),
        LISTS_PER_NODE_MAX
    );
    sim.receive(connection, &first(100));
    sim.wake().ended(connection);
    assert_eq!(held_changes(&sim), 0);
}

#[test]
fn long_lists_of_all_nodes_together_are_bounded() {
    let mut sim = SimulatedNode::new(NAME, &[]);
    let peers = ["a@h", "b@h", "c@h"].map(Peer::new);
    let first = |peer: &Peer, sequence| {
        let caller = tuple(&[peer.pid(5), peer.reference(1)]);
        let request = tuple(&[atom("add_subscriptions"), list(&elements("rj"), &nil())]);
        let whole = tuple(&[atom("$gen_call"), caller, request]);
        let to = tuple(&[integer(6), peer.pid(5), atom(""), atom("subsmanager")]);
        pieces(sequence, 20, &to, &whole).swap_remove(0)
    };
    let [one, other, last] = peers.map(|peer| {
        let connection = sim.accept_peer().unwrap();
        sim.receive(connection, &peer.call());
        (peer, connection)
    });
    sim.run_until_idle();
    for (peer, connection) in [one, other] {
        for sequence in 0..4 {
            sim.receive(connection, &first(&peer, sequence));
        }
    }
    assert_eq!(sim.counted().refused, [0; Refusal::KINDS]);
    sim.take_sent(last.1);
    sim.receive(last.1, &first(&last.0, 1));
    let heard = answers(&mut sim, last.1);
    assert!(heard[0].contains("at most 8 long lists"), "{heard:?}");
    assert_eq!(sim.counted().refused, refused(Refusal::TooLarge));
}

#[test]
fn lists_for_other_processes_are_refused_and_casts_are_not_answered() {
    let elements = elements("rj");
    let (mut sim, connection) = connected();
    let whole = call("add_subscriptions", &elements, &nil());
    for packet in pieces(1, 9, &control("router"), &whole) {
        sim.receive(connection, &packet);
    }
    let heard = answers(&mut sim, connection);
    assert!(heard[0].contains("sent to subsmanager"), "{heard:?}");
    assert_eq!(heard.len(), 1);
    assert_eq!(subscribers(&sim, "rj"), 0);
    let request = tuple(&[atom("add_subscriptions"), list(&elements, &nil())]);
    let cast = tuple(&[atom("$gen_cast"), request]);
    for packet in pieces(1, 9, &control("subsmanager"), &cast) {
        sim.receive(connection, &packet);
    }
    assert_eq!(answers(&mut sim, connection), Vec::<String>::new());
    assert_eq!(subscribers(&sim, "rj"), 100);
}

#[test]
fn a_node_is_not_read_while_its_list_waits_and_does_not_count_as_silent() {
    let mut cluster = Cluster::new();
    let whole = call("add_subscriptions", &elements("rj"), &nil());
    let mut packets = pieces(1, 20, &control("subsmanager"), &whole).into_iter();
    let mut changes = 0;
    let mut parts = 0;
    loop {
        while cluster.may_read()
            && let Some(packet) = packets.next()
        {
            cluster.say(&packet);
        }
        let heard = cluster.heard();
        let appended = cluster.appended();
        if appended.is_empty() {
            assert_eq!(heard, [reply("ok")]);
            break;
        }
        assert_eq!(heard.into_iter().filter(|said| !said.is_empty()).count(), 0);
        if parts == 1 {
            // The log is slower than the tick time.
            while cluster.may_read() {
                cluster.say(&packets.next().expect("the list is longer than three parts"));
            }
            cluster.advance_clock(2 * TICK_TIME);
        }
        parts += 1;
        for (commands, _, done) in appended {
            assert!(commands.len() <= LIST_PART_CHANGES);
            changes += commands.len();
            let effect = |_| CommandResult::Change(Ok(Effect::default()));
            done(Ok(Applied {
                first: Position::default(),
                results: commands.into_iter().map(effect).collect(),
                nodes: 1,
                missing: Vec::new(),
            }));
        }
    }
    assert_eq!(changes, LENGTH);
}
