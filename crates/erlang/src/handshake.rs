//! The handshake, in which two nodes exchange names and prove that they know the cookie. Version 6,
//! and version 5 for peers that ask for it.
//!
//! Takes and returns messages, without I/O. Challenges are arguments, so nothing here is random.

use crate::cookie::Cookie;
use crate::flags::Flags;
use crate::node_name::NodeName;
use crate::refusal::Refusal;
use crate::term::{Raw, Reader, Term, TermError};

/// The version number in messages of version 5.
const VERSION_5: u16 = 5;

/// The identity of this node.
#[derive(Debug, Clone)]
pub(crate) struct LocalNode {
    /// Its name.
    pub(crate) name: NodeName,
    /// The shared secret.
    pub(crate) cookie: Cookie,
    /// Distinguishes this run of the node from earlier ones; not zero.
    pub(crate) creation: u32,
}

impl LocalNode {
    /// Returns the words of a reference, if this run of the node has created it.
    pub(crate) fn own_words<'a>(
        &self,
        reference: Raw<'a>,
    ) -> Option<impl Iterator<Item = u32> + use<'a>> {
        let Term::Reference(reference) = reference.view() else {
            return None;
        };
        let is_own = reference.node.is(self.name.as_str()) && reference.creation == self.creation;
        is_own.then(|| reference.numbers())
    }
}

/// The identity of the other node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: Box<str>,
    pub(crate) flags: Flags,
    /// Zero if unknown, as in version 5.
    pub(crate) creation: u32,
}

/// The identity that a peer sends.
struct Introduction<'a> {
    flags: u64,
    /// Zero if there is none.
    challenge: u32,
    /// Zero in version 5.
    creation: u32,
    name: &'a [u8],
}

/// The answer to a node that has sent its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Continue.
    Ok,
    /// Continue; this node gives up the connection that it was opening.
    Simultaneous,
    /// Stop; the connection that this node is opening continues.
    Nok,
    /// There is a connection already. The peer must say whether it is dead.
    Alive,
}

/// The result of processing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait for the next message.
    GoOn,
    /// The peer has sent its name and must be [admitted](Handshake::admit).
    Named,
    /// The handshake is complete.
    Done,
}

/// The state of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    stage: Stage,
    /// The challenge that the peer must answer.
    challenge: u32,
    /// The identity of the other node, as far as it is known.
    pub(crate) peer: Peer,
    /// Whether the first message had the form of version 5.
    opened_as_5: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The peer has connected; its name comes next.
    Name,
    /// The peer waits for admission.
    Admission,
    /// The peer was told that it already has a connection; its answer whether that one is dead
    /// comes next.
    Alive,
    /// The flags that version 5 has no room for come next.
    Complement,
    /// The peer's proof and challenge come next.
    Reply,
    /// This node has connected; the peer's status comes next.
    Status,
    /// The peer's challenge comes next.
    Challenge,
    /// The peer's proof comes next.
    Acknowledgement,
}

impl Handshake {
    /// Starts with a node that has connected to this one.
    pub(crate) fn accepted(challenge: u32) -> Self {
        Self {
            stage: Stage::Name,
            challenge,
            peer: Peer {
                name: "".into(),
                flags: Flags(0),
                creation: 0,
            },
            opened_as_5: false,
        }
    }

    /// Starts with a node that this one has connected to. `version` is the newest that the peer
    /// supports.
    pub(crate) fn connecting(
        me: &LocalNode,
        peer: &str,
        version: u16,
        challenge: u32,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut handshake = Self::accepted(challenge);
        handshake.stage = Stage::Status;
        handshake.peer.name = peer.into();
        handshake.opened_as_5 = version <= VERSION_5;
        introduce(out, me, !handshake.opened_as_5, &[]);
        handshake
    }

    /// Processes one message, and appends the answer to `out`.
    ///
    /// # Errors
    ///
    /// When the connection must end.
    pub(crate) fn receive(
        &mut self,
        me: &LocalNode,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Refusal> {
        match (self.stage, message) {
            (Stage::Name, [b'N' | b'n', ..]) => self.on_name(me, message),
            (Stage::Alive, b"strue") => {
                self.send_challenge(me, out);
                Ok(Step::GoOn)
            }
            (Stage::Alive, b"sfalse") | (Stage::Status, b"snok" | b"snot_allowed") => {
                Err(Refusal::Declined)
            }
            (Stage::Complement, &[b'c', a, b, c, d, e, f, g, h]) => {
                let high = u64::from(u32::from_be_bytes([a, b, c, d]));
                self.peer.flags = Flags::of_peer(self.peer.flags.0 | high << 32);
                self.peer.creation = u32::from_be_bytes([e, f, g, h]);
                self.stage = Stage::Reply;
                Ok(Step::GoOn)
            }
            (Stage::Reply, [b'r', rest @ ..]) => self.on_reply(me, rest, out),
            (Stage::Status, b"sok" | b"sok_simultaneous") => {
                self.stage = Stage::Challenge;
                Ok(Step::GoOn)
            }
            // This node connects only if it has no connection, so the peer's old one is dead.
            (Stage::Status, b"salive") => {
                status(out, "true");
                self.stage = Stage::Challenge;
                Ok(Step::GoOn)
            }
            (Stage::Challenge, [b'N' | b'n', ..]) => self.on_challenge(me, message, out),
            (Stage::Acknowledgement, [b'a', digest @ ..]) => {
                if me.cookie.is_proved(self.challenge, digest) {
                    Ok(Step::Done)
                } else {
                    Err(Refusal::Cookie)
                }
            }
            _ => Err(Refusal::Handshake),
        }
    }

    fn on_name(&mut self, me: &LocalNode, message: &[u8]) -> Result<Step, Refusal> {
        if let [b'n', high, low, ..] = *message {
            if u16::from_be_bytes([high, low]) != VERSION_5 {
                return Err(Refusal::Version);
            }
            self.opened_as_5 = true;
        }
        self.set_peer(me, &Introduction::read(message, false)?)?;
        self.stage = Stage::Admission;
        Ok(Step::Named)
    }

    /// Answers the name of a peer.
    ///
    /// # Errors
    ///
    /// When the peer is not admitted.
    pub(crate) fn admit(
        &mut self,
        me: &LocalNode,
        admission: Admission,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        debug_assert_eq!(self.stage, Stage::Admission);
        match admission {
            Admission::Ok => status(out, "ok"),
            Admission::Simultaneous => status(out, "ok_simultaneous"),
            Admission::Alive => {
                status(out, "alive");
                self.stage = Stage::Alive;
                return Ok(());
            }
            Admission::Nok => {
                status(out, "nok");
                return Err(Refusal::Declined);
            }
        }
        self.send_challenge(me, out);
        Ok(())
    }

    fn send_challenge(&mut self, me: &LocalNode, out: &mut Vec<u8>) {
        let challenge = self.challenge.to_be_bytes();
        let has_6 = self.peer.flags.has_handshake_6();
        introduce(out, me, has_6, &challenge);
        self.stage = if self.opened_as_5 && has_6 {
            Stage::Complement
        } else {
            Stage::Reply
        };
    }

    fn on_reply(
        &mut self,
        me: &LocalNode,
        rest: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Refusal> {
        let (challenge, digest) = rest.split_first_chunk().ok_or(Refusal::Handshake)?;
        if !me.cookie.is_proved(self.challenge, digest) {
            return Err(Refusal::Cookie);
        }
        let proof = me.cookie.digest(u32::from_be_bytes(*challenge));
        message(out, |out| {
            out.push(b'a');
            out.extend(proof);
        });
        Ok(Step::Done)
    }

    fn on_challenge(
        &mut self,
        me: &LocalNode,
        received: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Refusal> {
        let introduction = Introduction::read(received, true)?;
        let expected = self.peer.name.clone();
        self.set_peer(me, &introduction)?;
        if self.peer.name != expected {
            return Err(Refusal::Name);
        }
        if self.opened_as_5 && received[0] == b'N' {
            message(out, |out| {
                out.push(b'c');
                out.extend(((Flags::OWN.0 >> 32) as u32).to_be_bytes());
                out.extend(me.creation.to_be_bytes());
            });
        }
        let own = self.challenge.to_be_bytes();
        let proof = me.cookie.digest(introduction.challenge);
        message(out, |out| {
            out.push(b'r');
            out.extend(own);
            out.extend(proof);
        });
        self.stage = Stage::Acknowledgement;
        Ok(Step::GoOn)
    }

    /// Checks and stores the identity of the peer.
    fn set_peer(&mut self, me: &LocalNode, peer: &Introduction<'_>) -> Result<(), Refusal> {
        let flags = Flags::of_peer(peer.flags);
        if !flags.are_sufficient() {
            return Err(Refusal::Version);
        }
        let name = str::from_utf8(peer.name).map_err(|_| Refusal::Name)?;
        let name: NodeName = name.parse().map_err(|_| Refusal::Name)?;
        if name == me.name {
            return Err(Refusal::Name);
        }
        self.peer = Peer {
            name: name.as_str().into(),
            flags,
            creation: peer.creation,
        };
        Ok(())
    }
}

impl<'a> Introduction<'a> {
    /// Reads the message of a peer in the form of version 6 or 5. Later versions may append data,
    /// which is ignored.
    fn read(message: &'a [u8], has_challenge: bool) -> Result<Self, Refusal> {
        let is_6 = message.first() == Some(&b'N');
        let mut bytes = Reader(message);
        let mut read = || {
            bytes.take(if is_6 { 1 } else { 3 })?;
            Ok(Self {
                flags: if is_6 {
                    bytes.u64()?
                } else {
                    bytes.u32()?.into()
                },
                challenge: if has_challenge { bytes.u32()? } else { 0 },
                creation: if is_6 { bytes.u32()? } else { 0 },
                name: match is_6 {
                    true => {
                        let size = bytes.u16()?;
                        bytes.take(size.into())?
                    }
                    false => bytes.0,
                },
            })
        };
        read().map_err(|_: TermError| Refusal::Handshake)
    }
}

/// Writes the identity of this node, and a challenge if there is one, in the form of version 6 or
/// 5.
fn introduce(out: &mut Vec<u8>, me: &LocalNode, is_6: bool, challenge: &[u8]) {
    let name = me.name.as_str();
    message(out, |out| {
        if is_6 {
            out.push(b'N');
            out.extend(Flags::OWN.0.to_be_bytes());
            out.extend(challenge);
            out.extend(me.creation.to_be_bytes());
            out.extend((name.len() as u16).to_be_bytes());
        } else {
            out.push(b'n');
            out.extend(VERSION_5.to_be_bytes());
            out.extend((Flags::OWN.0 as u32).to_be_bytes());
            out.extend(challenge);
        }
        out.extend(name.as_bytes());
    });
}

fn status(out: &mut Vec<u8>, status: &str) {
    message(out, |out| {
        out.push(b's');
        out.extend(status.as_bytes());
    });
}

/// Appends a message, preceded by its size.
fn message(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0, 0]);
    write(out);
    let size = (out.len() - start - 2) as u16;
    out[start..start + 2].copy_from_slice(&size.to_be_bytes());
}

#[cfg(test)]
mod tests;
