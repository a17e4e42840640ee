//! Handshakes in both directions and versions, with all failures.

use super::*;
use crate::cookie::Cookie;
use crate::flags::Flags;
use crate::flags::tests::{LATER_OTP, OTP_22, OTP_24, OTP_25, OTP_28};
use crate::sim::peer::{atom, status, tuple};
use crate::sim::{CHALLENGE, COOKIE, CREATION};

/// A call that the node answers only to connected peers.
fn ping() -> Vec<u8> {
    PEER.call_to("net_kernel", &tuple(&[atom("is_auth"), atom(PEER.name)]))
}

fn assert_connected(outcome: &Outcome) {
    assert!(outcome.is_up && !outcome.is_closed, "{outcome:?}");
    assert_eq!(outcome.metrics.nodes, 1);
    assert_eq!(outcome.metrics.refused, [0; Refusal::KINDS]);
    let [answer] = &*outcome.heard.messages else {
        panic!("{outcome:?}");
    };
    assert!(
        answer.starts_with("{2,'',<peer@h.5.0>} ! {#Ref<peer@h."),
        "{answer}"
    );
    assert!(answer.ends_with(",yes}"), "{answer}");
}

fn proof_of_the_node() -> [u8; 16] {
    Cookie::parse(COOKIE)
        .unwrap()
        .digest(crate::sim::peer::PEERS_CHALLENGE)
}

fn name_in_6() -> Vec<u8> {
    let name = [&(NAME.len() as u16).to_be_bytes(), NAME.as_bytes()].concat();
    [&CREATION.to_be_bytes()[..], &name].concat()
}

#[test]
fn a_dialing_peer_is_connected_alike_at_every_split() {
    let outcome = alike_at_every_split(Opener::Peer, &[PEER.call(), ping()].concat());
    assert_connected(&outcome);
    let flags = Flags::OWN.0.to_be_bytes();
    let challenge = [b"N", &flags[..], &CHALLENGE.to_be_bytes(), &name_in_6()].concat();
    let proof = [b"a", &proof_of_the_node()[..]].concat();
    assert_eq!(outcome.heard.handshake, [b"sok".to_vec(), challenge, proof]);
}

#[test]
fn a_peer_that_dials_in_version_5_is_connected_in_6_if_it_supports_it() {
    let outcome = alike_at_every_split(Opener::Peer, &[PEER.call_5(true), ping()].concat());
    assert_connected(&outcome);
    assert_eq!(outcome.heard.handshake[1][0], b'N');
    let old = Peer {
        flags: OTP_22,
        ..PEER
    };
    let outcome = alike_at_every_split(Opener::Peer, &[old.call_5(false), ping()].concat());
    assert_connected(&outcome);
    let flags = (Flags::OWN.0 as u32).to_be_bytes();
    let challenge = [
        b"n\0\x05",
        &flags[..],
        &CHALLENGE.to_be_bytes(),
        NAME.as_bytes(),
    ]
    .concat();
    assert_eq!(outcome.heard.handshake[1], challenge);
}

#[test]
fn a_dialed_peer_is_connected_alike_at_every_split() {
    let outcome = alike_at_every_split(Opener::Node(6), &[PEER.answer(true), ping()].concat());
    assert_connected(&outcome);
    let flags = Flags::OWN.0.to_be_bytes();
    let name = [b"N", &flags[..], &name_in_6()].concat();
    let reply = [b"r", &CHALLENGE.to_be_bytes()[..], &proof_of_the_node()].concat();
    assert_eq!(outcome.heard.handshake, [name, reply]);
}

#[test]
fn a_peer_dialed_in_version_5_may_support_6() {
    let low = (Flags::OWN.0 as u32).to_be_bytes();
    let name = [b"n\0\x05", &low[..], NAME.as_bytes()].concat();
    let outcome = alike_at_every_split(Opener::Node(5), &[PEER.answer(true), ping()].concat());
    assert_connected(&outcome);
    let high = ((Flags::OWN.0 >> 32) as u32).to_be_bytes();
    let complement = [b"c", &high[..], &CREATION.to_be_bytes()].concat();
    assert_eq!(outcome.heard.handshake[..2], [name.clone(), complement]);
    let old = Peer {
        flags: OTP_22,
        ..PEER
    };
    let outcome = alike_at_every_split(Opener::Node(5), &[old.answer(false), ping()].concat());
    assert_connected(&outcome);
    assert_eq!(outcome.heard.handshake.len(), 2);
    assert_eq!(outcome.heard.handshake[0], name);
}

#[test]
fn nodes_of_all_releases_connect_in_both_directions() {
    for flags in [OTP_24, OTP_25, OTP_28, LATER_OTP] {
        for flags in [flags, flags & !1] {
            let peer = Peer { flags, ..PEER };
            assert_connected(&outcome(Opener::Peer, &[&peer.call(), &ping()]));
            assert_connected(&outcome(Opener::Peer, &[&peer.call_5(true), &ping()]));
            for version in [5, 6] {
                assert_connected(&outcome(
                    Opener::Node(version),
                    &[&peer.answer(true), &ping()],
                ));
            }
        }
    }
}

#[test]
fn a_wrong_cookie_is_refused_in_both_directions() {
    let stranger = Peer {
        cookie: "another",
        ..PEER
    };
    for (opener, stream, spoken) in [
        (Opener::Peer, stranger.call(), 2),
        (Opener::Peer, stranger.call_5(true), 2),
        (Opener::Node(6), stranger.answer(true), 2),
    ] {
        let outcome = alike_at_every_split(opener, &[stream, ping()].concat());
        assert!(outcome.is_closed && !outcome.is_up, "{outcome:?}");
        assert_eq!(outcome.metrics.refused, refused(Refusal::Cookie));
        assert_eq!((outcome.metrics.nodes, outcome.metrics.messages), (0, 0));
        assert_eq!(outcome.heard.handshake.len(), spoken);
        // A peer without the cookie does not get the node's own proof.
        assert_eq!(
            outcome
                .heard
                .handshake
                .iter()
                .filter(|said| said[0] == b'a')
                .count(),
            0
        );
    }
}

#[test]
fn unacceptable_versions_and_names_are_refused() {
    let before_23 = Peer {
        flags: OTP_22 & !0x4_0000,
        ..PEER
    };
    let ours = Peer { name: NAME, ..PEER };
    let nameless = Peer {
        name: "peer",
        ..PEER
    };
    let mut version_4 = PEER.call_5(true);
    version_4[4] = 4;
    for (opener, stream, refusal) in [
        (Opener::Peer, before_23.call(), Refusal::Version),
        (Opener::Peer, before_23.call_5(false), Refusal::Version),
        (Opener::Peer, version_4, Refusal::Version),
        (Opener::Node(6), before_23.answer(true), Refusal::Version),
        (Opener::Peer, ours.call(), Refusal::Name),
        (Opener::Peer, nameless.call(), Refusal::Name),
        (
            Opener::Node(6),
            Peer {
                name: "other@h",
                ..PEER
            }
            .answer(true),
            Refusal::Name,
        ),
        (
            Opener::Peer,
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            Refusal::Handshake,
        ),
        (Opener::Peer, PEER.reply(), Refusal::Handshake),
        (Opener::Node(6), PEER.challenge_6(), Refusal::Handshake),
        (Opener::Node(6), status("nok"), Refusal::Declined),
        (Opener::Node(6), status("not_allowed"), Refusal::Declined),
    ] {
        let outcome = alike_at_every_split(opener, &stream);
        assert!(
            outcome.is_closed && !outcome.is_up,
            "{refusal:?}: {outcome:?}"
        );
        assert_eq!(outcome.metrics.refused, refused(refusal));
    }
}

#[test]
fn an_incomplete_handshake_ends_exactly_at_its_time_limit() {
    for (opener, stream) in [
        (Opener::Peer, PEER.call()),
        (Opener::Peer, PEER.call_5(true)),
        (Opener::Node(6), PEER.answer(true)),
    ] {
        for end in 0..stream.len() {
            let (mut sim, connection) = open(opener);
            sim.receive(connection, &stream[..end]);
            sim.advance_clock(HANDSHAKE_TIME - Duration::from_millis(1));
            assert!(!sim.is_closed(connection), "{end} bytes");
            // Further bytes do not extend the time.
            sim.receive(connection, &stream[end..end]);
            sim.advance_clock(DEADLINE_CHECK_INTERVAL);
            assert!(sim.is_closed(connection), "{end} bytes");
            assert_eq!(sim.counted().refused, refused(Refusal::HandshakeSlow));
        }
    }
}

#[test]
fn a_peer_that_is_connected_already_is_asked_whether_it_has_restarted() {
    for (said, stays) in [("false", true), ("true", false)] {
        let answer = [PEER.name_6(), status(said), PEER.reply(), ping()].concat();
        for at in 1..answer.len() {
            let (mut sim, first) = connected();
            let second = sim.accept_peer().unwrap();
            sim.receive(second, &answer[..at]);
            sim.receive(second, &answer[at..]);
            sim.run_until_idle();
            let heard = hear(&sim.take_sent(second));
            assert_eq!(heard.handshake[0], b"salive");
            assert_eq!(
                (sim.is_closed(first), sim.is_closed(second)),
                (!stays, stays)
            );
            assert_eq!(heard.messages.len(), usize::from(!stays));
            assert_eq!(sim.counted().nodes, 1);
            assert_eq!(
                sim.node.connections.find(PEER.name),
                Some(if stays { first } else { second })
            );
        }
    }
}

#[test]
fn of_two_crossing_dials_that_of_the_greater_name_is_kept() {
    for (name, status, ours_goes_on) in [("a@h", "sok_simultaneous", false), ("z@h", "snok", true)]
    {
        let mut sim = SimulatedNode::new(name, &[PEER.name]);
        sim.run_until_idle();
        let (ours, _) = sim.calls.pop().unwrap();
        assert!(sim.complete_dial(ours, 6));
        let theirs = sim.accept_peer().unwrap();
        sim.receive(theirs, &PEER.call());
        sim.run_until_idle();
        assert_eq!(hear(&sim.take_sent(theirs)).handshake[0], status.as_bytes());
        assert_eq!(
            (sim.is_closed(ours), sim.is_closed(theirs)),
            (!ours_goes_on, ours_goes_on)
        );
        sim.receive(ours, &PEER.answer(true));
        sim.run_until_idle();
        assert_eq!(sim.counted().nodes, 1);
        assert_eq!(sim.counted().refused, [0; Refusal::KINDS]);
    }
}

#[test]
fn two_nodes_that_dial_each_other_at_once_end_up_with_one_connection() {
    for size in 1..=64 {
        let mut nodes = [("a@h", "b@h"), ("b@h", "a@h")]
            .map(|(name, other)| SimulatedNode::new(name, &[other]));
        // The two ends of each connection.
        let mut connections = Vec::new();
        for caller in [0, 1] {
            nodes[caller].run_until_idle();
            let (near, _) = nodes[caller].calls.pop().unwrap();
            assert!(nodes[caller].complete_dial(near, 6));
            let far = nodes[1 - caller].accept_peer().unwrap();
            connections.push(if caller == 0 {
                [near, far]
            } else {
                [far, near]
            });
        }
        exchange(&mut nodes, &connections, size);
        for (end, sim) in nodes.iter().enumerate() {
            assert_eq!(sim.counted().nodes, 1, "{size} bytes at a time, end {end}");
            let up = connections
                .iter()
                .map(|ends| sim.node.connections.get(ends[end]).is_some());
            assert_eq!(
                up.collect::<Vec<_>>(),
                [false, true],
                "the dial of b goes on"
            );
        }
    }
}

/// Transfers bytes between two nodes, `size` at a time, until both are silent.
fn exchange(nodes: &mut [SimulatedNode; 2], connections: &[[ConnectionId; 2]], size: usize) {
    let mut under_way = vec![[Vec::new(), Vec::new()]; connections.len()];
    loop {
        let mut is_silent = true;
        for (ends, under_way) in connections.iter().zip(&mut under_way) {
            for from in [0, 1] {
                nodes[from].run_until_idle();
                under_way[from].extend(nodes[from].take_sent(ends[from]));
                let count = size.min(under_way[from].len());
                let piece: Vec<_> = under_way[from].drain(..count).collect();
                is_silent &= piece.is_empty();
                nodes[1 - from].receive(ends[1 - from], &piece);
                nodes[1 - from].run_until_idle();
                if nodes[from].is_closed(ends[from]) && under_way[from].is_empty() {
                    nodes[1 - from].node.ended(ends[1 - from]);
                    nodes[1 - from].run_until_idle();
                }
            }
        }
        if is_silent {
            return;
        }
    }
}
