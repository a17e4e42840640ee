//! A simulated peer: encoding of what it sends, and decoding of what the node sends.

use super::{CHALLENGE, COOKIE};
use crate::cookie::Cookie;
use crate::term::{Raw, text, write};

/// The challenge that peers send.
pub(crate) const PEERS_CHALLENGE: u32 = 9;
/// The creation of peers.
pub(crate) const PEERS_CREATION: u32 = 77;

/// A simulated peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) cookie: &'static str,
    pub(crate) flags: u64,
    pub(crate) creation: u32,
}

impl Peer {
    /// Creates a peer with the flags of OTP 25.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            cookie: COOKIE,
            flags: 0xd_07df_7fbd,
            creation: PEERS_CREATION,
        }
    }

    fn proof(&self, challenge: u32) -> [u8; 16] {
        let cookie = Cookie::parse(self.cookie).expect("a cookie");
        cookie.digest(challenge)
    }

    /// Returns all bytes that a connecting peer sends in a handshake of version 6.
    pub(crate) fn call(&self) -> Vec<u8> {
        [self.name_6(), self.reply()].concat()
    }

    /// Returns the same for a peer that starts with version 5. If it supports version 6, it
    /// continues with that.
    pub(crate) fn call_5(&self, knows_6: bool) -> Vec<u8> {
        let mut said = self.name_5();
        if knows_6 {
            said.extend(short(
                b'c',
                &[
                    &((self.flags >> 32) as u32).to_be_bytes(),
                    &self.creation.to_be_bytes(),
                ],
            ));
        }
        said.extend(self.reply());
        said
    }

    /// Returns all bytes that a dialed peer sends in a handshake.
    pub(crate) fn answer(&self, knows_6: bool) -> Vec<u8> {
        let challenge = if knows_6 {
            self.challenge_6()
        } else {
            self.challenge_5()
        };
        [status("ok"), challenge, self.acknowledgement()].concat()
    }

    pub(crate) fn name_6(&self) -> Vec<u8> {
        short(
            b'N',
            &[
                &self.flags.to_be_bytes(),
                &self.creation.to_be_bytes(),
                &(self.name.len() as u16).to_be_bytes(),
                self.name.as_bytes(),
            ],
        )
    }

    pub(crate) fn name_5(&self) -> Vec<u8> {
        let flags = (self.flags as u32).to_be_bytes();
        short(b'n', &[&[0, 5], &flags, self.name.as_bytes()])
    }

    pub(crate) fn challenge_6(&self) -> Vec<u8> {
        short(
            b'N',
            &[
                &self.flags.to_be_bytes(),
                &PEERS_CHALLENGE.to_be_bytes(),
                &self.creation.to_be_bytes(),
                &(self.name.len() as u16).to_be_bytes(),
                self.name.as_bytes(),
            ],
        )
    }

    fn challenge_5(&self) -> Vec<u8> {
        let flags = (self.flags as u32).to_be_bytes();
        let challenge = PEERS_CHALLENGE.to_be_bytes();
        short(b'n', &[&[0, 5], &flags, &challenge, self.name.as_bytes()])
    }

    pub(crate) fn reply(&self) -> Vec<u8> {
        self.reply_to(CHALLENGE)
    }

    /// The answer to another challenge than [`CHALLENGE`].
    pub(crate) fn reply_to(&self, challenge: u32) -> Vec<u8> {
        short(
            b'r',
            &[&PEERS_CHALLENGE.to_be_bytes(), &self.proof(challenge)],
        )
    }

    pub(crate) fn acknowledgement(&self) -> Vec<u8> {
        short(b'a', &[&self.proof(CHALLENGE)])
    }

    /// A pid of the peer.
    pub(crate) fn pid(&self, id: u32) -> Vec<u8> {
        pid(self.name, id, self.creation)
    }

    /// A message to a registered process of the node.
    pub(crate) fn send_to(&self, name: &str, payload: &[u8]) -> Vec<u8> {
        let control = tuple(&[integer(6), self.pid(5), atom(""), atom(name)]);
        message(&control, Some(payload))
    }

    /// A `gen_server` call. The answer goes to process 5.
    pub(crate) fn call_to(&self, name: &str, request: &[u8]) -> Vec<u8> {
        self.call_numbered(1, name, request)
    }

    /// A `gen_server` call whose answer has this number.
    pub(crate) fn call_numbered(&self, number: u32, name: &str, request: &[u8]) -> Vec<u8> {
        let from = tuple(&[self.pid(5), self.reference(number)]);
        self.send_to(name, &tuple(&[atom("$gen_call"), from, request.to_vec()]))
    }

    /// A reference of the peer.
    pub(crate) fn reference(&self, number: u32) -> Vec<u8> {
        reference(self.name, self.creation, &[number, 0, 0])
    }
}

/// Encodes a handshake message with its size.
pub(crate) fn short(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut message = (content.len() as u16 + 1).to_be_bytes().to_vec();
    message.push(kind);
    message.extend(content);
    message
}

/// A status message of the handshake.
pub(crate) fn status(status: &str) -> Vec<u8> {
    short(b's', &[status.as_bytes()])
}

/// A packet after the handshake.
pub(crate) fn packet(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes(), content].concat()
}

/// A message with a distribution header.
pub(crate) fn message(control: &[u8], payload: Option<&[u8]>) -> Vec<u8> {
    packet(&[&[131, 68, 0], control, payload.unwrap_or_default()].concat())
}

/// A message without a distribution header.
pub(crate) fn passed_through(control: &[u8], payload: Option<&[u8]>) -> Vec<u8> {
    let mut content = [&[112, 131], control].concat();
    if let Some(payload) = payload {
        content.push(131);
        content.extend(payload);
    }
    packet(&content)
}

/// A message in `count` fragments, each in a packet.
pub(crate) fn pieces(sequence: u64, count: usize, control: &[u8], payload: &[u8]) -> Vec<Vec<u8>> {
    let whole = [control, payload].concat();
    let size = whole.len().div_ceil(count);
    let count = whole.chunks(size).count() as u64;
    let pieces = whole.chunks(size).zip((1..=count).rev());
    let packets = pieces.map(|(piece, number)| {
        let mut content = vec![131, if number == count { 69 } else { 70 }];
        content.extend(sequence.to_be_bytes());
        content.extend(number.to_be_bytes());
        if number == count {
            content.push(0);
        }
        content.extend(piece);
        packet(&content)
    });
    packets.collect()
}

pub(crate) fn integer(value: i64) -> Vec<u8> {
    build(|out| write::integer(out, value))
}

pub(crate) fn atom(text: &str) -> Vec<u8> {
    build(|out| write::atom(out, text))
}

pub(crate) fn binary(bytes: &[u8]) -> Vec<u8> {
    build(|out| write::binary(out, bytes))
}

pub(crate) fn tuple(parts: &[Vec<u8>]) -> Vec<u8> {
    build(|out| {
        write::tuple(out, parts.len());
        parts.iter().for_each(|part| out.extend(part));
    })
}

/// A list that ends with `tail`.
pub(crate) fn list(elements: &[Vec<u8>], tail: &[u8]) -> Vec<u8> {
    build(|out| {
        write::list(out, elements.len());
        elements.iter().for_each(|element| out.extend(element));
        out.extend(tail);
    })
}

pub(crate) fn nil() -> Vec<u8> {
    build(write::nil)
}

pub(crate) fn pid(node: &str, id: u32, creation: u32) -> Vec<u8> {
    build(|out| {
        out.push(88);
        write::atom(out, node);
        for number in [id, 0, creation] {
            out.extend(number.to_be_bytes());
        }
    })
}

pub(crate) fn reference(node: &str, creation: u32, words: &[u32]) -> Vec<u8> {
    build(|out| {
        out.extend([90, 0, words.len() as u8]);
        write::atom(out, node);
        out.extend(creation.to_be_bytes());
        out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    })
}

fn build(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Decoded output of a node on one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Messages of the handshake.
    pub(crate) handshake: Vec<Vec<u8>>,
    /// Messages as Erlang prints them: `control`, or `control ! payload`. A tick is empty.
    pub(crate) messages: Vec<String>,
}

/// Decodes what a node has sent on one connection, from its first byte.
///
/// # Panics
///
/// When it violates the protocol.
pub(crate) fn hear(mut bytes: &[u8]) -> Heard {
    let mut handshake = Vec::new();
    // A proof is the last handshake message of the node.
    let mut is_up = false;
    while !bytes.is_empty() && !is_up {
        let (size, rest) = bytes.split_first_chunk().expect("a size");
        let (message, rest) = rest.split_at(u16::from_be_bytes(*size).into());
        let is_last = message.len() == 17 || message.len() == 21;
        is_up = is_last && matches!(message.first(), Some(b'a' | b'r'));
        handshake.push(message.to_vec());
        bytes = rest;
    }
    Heard {
        handshake,
        messages: hear_messages(bytes),
    }
}

/// Decodes what a node has sent on a connection after the handshake.
///
/// # Panics
///
/// When it violates the protocol.
pub(crate) fn hear_messages(mut bytes: &[u8]) -> Vec<String> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let (size, rest) = bytes.split_first_chunk().expect("a size");
        let (packet, rest) = rest.split_at(u32::from_be_bytes(*size) as usize);
        messages.push(hear_packet(packet));
        bytes = rest;
    }
    messages
}

/// Decodes a packet after the handshake.
pub(crate) fn hear_packet(packet: &[u8]) -> String {
    let (terms, has_versions) = match packet {
        [] => return String::new(),
        [131, 68, 0, terms @ ..] => (terms, false),
        [112, terms @ ..] => (terms, true),
        _ => panic!("not a message: {packet:?}"),
    };
    let mut rest = terms;
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let (term, behind) = if has_versions {
            Raw::versioned(rest)
        } else {
            Raw::parse(rest)
        }
        .expect("a term");
        texts.push(text::of(term, usize::MAX).expect("short"));
        rest = behind;
    }
    assert!((1..=2).contains(&texts.len()), "{texts:?}");
    texts.join(" ! ")
}
