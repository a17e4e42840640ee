use super::*;

fn me(name: &str, cookie: &str) -> LocalNode {
    LocalNode {
        name: name.parse().unwrap(),
        cookie: Cookie::parse(cookie).unwrap(),
        creation: 7,
    }
}

/// Runs a handshake between two nodes. Returns what each learns about the other, or its refusal.
fn run_handshake(
    caller: &LocalNode,
    called: &LocalNode,
    version: u16,
) -> (Result<Peer, Refusal>, Result<Peer, Refusal>) {
    let mut to_called = Vec::new();
    let mut to_caller = Vec::new();
    let mut a = Handshake::connecting(caller, called.name.as_str(), version, 11, &mut to_called);
    let mut b = Handshake::accepted(22);
    let (mut a_done, mut b_done) = (None, None);
    for _ in 0..10 {
        let sent = std::mem::take(&mut to_called);
        deliver(&mut b, called, &sent, &mut to_caller, &mut b_done);
        let sent = std::mem::take(&mut to_caller);
        deliver(&mut a, caller, &sent, &mut to_called, &mut a_done);
    }
    let outcome = |done: Option<Result<(), Refusal>>, handshake: Handshake| {
        done.unwrap_or(Err(Refusal::HandshakeSlow))
            .map(|()| handshake.peer)
    };
    (outcome(a_done, a), outcome(b_done, b))
}

fn deliver(
    to: &mut Handshake,
    me: &LocalNode,
    mut sent: &[u8],
    out: &mut Vec<u8>,
    done: &mut Option<Result<(), Refusal>>,
) {
    while let Some((size, rest)) = sent.split_first_chunk() {
        let (message, rest) = rest.split_at(u16::from_be_bytes(*size).into());
        sent = rest;
        if done.is_some() {
            continue;
        }
        let step = to.receive(me, message, out).and_then(|step| match step {
            Step::Named => to.admit(me, Admission::Ok, out).map(|()| Step::Named),
            step => Ok(step),
        });
        match step {
            Ok(Step::Done) => *done = Some(Ok(())),
            Ok(_) => {}
            Err(refusal) => *done = Some(Err(refusal)),
        }
    }
}

#[test]
fn two_nodes_learn_each_others_identity_in_either_version() {
    let (a, b) = (me("a@h", "secret"), me("b@h", "secret"));
    for version in [5, 6] {
        let (of_called, of_caller) = run_handshake(&a, &b, version);
        let of_called = of_called.unwrap();
        let of_caller = of_caller.unwrap();
        assert_eq!(&*of_called.name, "b@h");
        assert_eq!(&*of_caller.name, "a@h");
        assert_eq!((of_called.creation, of_caller.creation), (7, 7));
        assert_eq!((of_called.flags, of_caller.flags), (Flags::OWN, Flags::OWN));
    }
}

#[test]
fn the_accepting_node_detects_a_wrong_cookie() {
    let (a, b) = (me("a@h", "secret"), me("b@h", "secre"));
    let (of_called, of_caller) = run_handshake(&a, &b, 6);
    assert_eq!(of_caller, Err(Refusal::Cookie));
    assert_eq!(of_called, Err(Refusal::HandshakeSlow));
}

#[test]
fn the_peer_must_have_the_name_that_was_dialed() {
    let (a, b) = (me("a@h", "secret"), me("b@h", "secret"));
    let mut out = Vec::new();
    let mut handshake = Handshake::connecting(&a, "c@h", 6, 1, &mut out);
    handshake.receive(&a, b"sok", &mut out).unwrap();
    let mut called = Handshake::accepted(2);
    let mut challenge = Vec::new();
    called
        .receive(&b, &name_message("a@h"), &mut challenge)
        .unwrap();
    called.admit(&b, Admission::Ok, &mut challenge).unwrap();
    // The challenge follows the status of five bytes.
    let challenge = &challenge[5 + 2..];
    assert_eq!(
        handshake.receive(&a, challenge, &mut out),
        Err(Refusal::Name)
    );
}

fn name_message(name: &str) -> Vec<u8> {
    let mut message = vec![b'N'];
    message.extend(Flags::OWN.0.to_be_bytes());
    message.extend(9_u32.to_be_bytes());
    message.extend((name.len() as u16).to_be_bytes());
    message.extend(name.as_bytes());
    message
}

#[test]
fn unacceptable_names_flags_and_versions_are_refused() {
    let own = me("b@h", "secret");
    let refusal = |message: &[u8]| {
        Handshake::accepted(1)
            .receive(&own, message, &mut Vec::new())
            .unwrap_err()
    };
    assert_eq!(refusal(&name_message("b@h")), Refusal::Name);
    assert_eq!(refusal(&name_message("no-host")), Refusal::Name);
    assert_eq!(refusal(&name_message("a\n@h")), Refusal::Name);
    assert_eq!(refusal(b"n\x00\x04\xff\xff\xff\xffa@h"), Refusal::Version);
    assert_eq!(refusal(b"n\x00\x05\x00\x00\x00\x00a@h"), Refusal::Version);
    assert_eq!(refusal(b"GET / HTTP/1.1"), Refusal::Handshake);
    let mut lying = name_message("a@h");
    let size = lying.len() - 4;
    lying[size] = 0xff;
    assert_eq!(refusal(&lying), Refusal::Handshake);
    let whole = name_message("a@h");
    for end in 0..whole.len() {
        assert_eq!(refusal(&whole[..end]), Refusal::Handshake, "{end} bytes");
    }
}
