//! The receiving side of one connection, from its first byte: handshake, then messages.
//!
//! Turns bytes into messages. Must never decide how to answer a message.

use crate::control::Control;
use crate::fragments::{FragmentAssembler, RefusedFragment};
use crate::handshake::{Handshake, LocalNode, Peer, Step};
use crate::large_list::{LargeList, ListMessage};
use crate::limits::{
    CALLER_BYTES_MAX, HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX, PACKET_BYTES_ALWAYS,
};
use crate::packet::{LengthPrefix, Packet, PacketReader};
use crate::refusal::Refusal;
use crate::term::{Raw, TermError, tag};

/// First byte of a message without a distribution header.
const PASS_THROUGH: u8 = 112;
const VERSION: u8 = 131;
const HEADER: u8 = 68;
const FIRST_FRAGMENT: u8 = 69;
const FRAGMENT: u8 = 70;
/// Bytes of the number of a message and of the number of its fragment.
const FRAGMENT_NUMBERS_BYTES: usize = 16;

/// The state of the receiving side.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) handshake: Handshake,
    /// Whether the handshake is complete.
    is_up: bool,
    packets: PacketReader,
    fragments: FragmentAssembler,
    /// The last message that was assembled from fragments.
    assembled: Vec<u8>,
}

/// The meaning of a packet.
#[derive(Debug)]
pub(crate) enum ChannelEvent<'a> {
    /// Nothing to do: a tick, a fragment, a step of the handshake.
    Nothing,
    /// The peer has sent its name and must be [admitted](Handshake::admit).
    NameReceived,
    /// The handshake is complete.
    Up,
    /// A message with its payload.
    Message(Control<'a>, Option<Raw<'a>>),
    /// The beginning of a list that is read piecewise.
    ListBegun(LargeList<'a>),
    /// A further piece of such a list.
    ListContinued {
        /// Its message.
        message: ListMessage,
        /// The bytes.
        piece: &'a [u8],
        /// Whether they are the last.
        is_last: bool,
    },
    /// A fragment of such a list is out of order. The rest of the list is dropped.
    ListBroken {
        /// Its message.
        message: ListMessage,
        /// The reason.
        refusal: Refusal,
    },
    /// A message that is refused. The connection goes on.
    Rejected(Refused<'a>),
}

/// A refused message.
#[derive(Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) refusal: Refusal,
    /// The caller that waits for an answer, if the message is a call.
    pub(crate) caller: Option<Raw<'a>>,
}

impl<R: Into<Refusal>> From<R> for Refused<'_> {
    fn from(refusal: R) -> Self {
        Self {
            refusal: refusal.into(),
            caller: None,
        }
    }
}

impl Channel {
    /// Starts with a handshake.
    pub(crate) fn new(handshake: Handshake) -> Self {
        Self {
            handshake,
            is_up: false,
            packets: PacketReader::default(),
            fragments: FragmentAssembler::default(),
            assembled: Vec::new(),
        }
    }

    /// Returns the bytes held of incomplete messages.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn held_bytes(&self) -> usize {
        self.packets.held_bytes() + self.fragments.held_bytes() + self.assembled.len()
    }

    /// Returns the identity of the other node, as far as the handshake has revealed it.
    pub(crate) const fn peer(&self) -> &Peer {
        &self.handshake.peer
    }

    /// Takes the next packet off `input`; `None` if it holds no complete one. Answers of the
    /// handshake are appended to `out`.
    ///
    /// # Errors
    ///
    /// When the connection must end.
    pub(crate) fn next<'a, 'input: 'a>(
        &'a mut self,
        me: &LocalNode,
        input: &mut &'input [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<ChannelEvent<'a>>, Refusal> {
        // The message was processed; the memory of a large one is not kept until the next.
        self.assembled = Vec::new();
        let (width, bytes_max) = if self.is_up {
            let room = MESSAGE_BYTES_MAX - self.fragments.held_bytes();
            (LengthPrefix::Four, room.max(PACKET_BYTES_ALWAYS))
        } else {
            (LengthPrefix::Two, HANDSHAKE_BYTES_MAX)
        };
        let is_list = |size, beginning: &[u8]| list_of_packet(size, beginning).is_some();
        let packet = match self.packets.next(input, width, bytes_max, is_list) {
            None => return Ok(None),
            Some(Packet::Whole(packet)) => packet,
            Some(Packet::Begun { size, beginning }) => {
                let list = list_of_packet(size, beginning);
                return Ok(Some(
                    list.map_or(ChannelEvent::Nothing, ChannelEvent::ListBegun),
                ));
            }
            Some(Packet::Piece { bytes, is_last }) => {
                return Ok(Some(ChannelEvent::ListContinued {
                    message: ListMessage::Packet,
                    piece: bytes,
                    is_last,
                }));
            }
            Some(Packet::TooLarge(_)) if width == LengthPrefix::Two => {
                return Err(Refusal::Handshake);
            }
            Some(Packet::TooLarge(beginning)) => {
                let refusal = Refusal::TooLarge;
                let caller = caller_of_packet(beginning);
                return Ok(Some(ChannelEvent::Rejected(Refused { refusal, caller })));
            }
        };
        if self.is_up {
            let event = message(packet, &mut self.fragments, &mut self.assembled);
            return Ok(Some(event.unwrap_or_else(ChannelEvent::Rejected)));
        }
        let step = self.handshake.receive(me, packet, out)?;
        self.is_up = step == Step::Done;
        Ok(Some(match step {
            Step::GoOn => ChannelEvent::Nothing,
            Step::Named => ChannelEvent::NameReceived,
            Step::Done => ChannelEvent::Up,
        }))
    }
}

/// Reads a packet after the handshake.
fn message<'a>(
    packet: &'a [u8],
    fragments: &mut FragmentAssembler,
    assembled: &'a mut Vec<u8>,
) -> Result<ChannelEvent<'a>, Refused<'a>> {
    match *packet {
        // A tick.
        [] => Ok(ChannelEvent::Nothing),
        [PASS_THROUGH, ref rest @ ..] => terms(rest, true),
        // A header without atom references: no atom cache was agreed on.
        [VERSION, HEADER, 0, ref rest @ ..] => terms(rest, false),
        [VERSION, kind @ (FIRST_FRAGMENT | FRAGMENT), ref rest @ ..] => {
            let (sequence, rest) = rest.split_first_chunk().ok_or(Refusal::Message)?;
            let (number, rest) = rest.split_first_chunk().ok_or(Refusal::Message)?;
            let (sequence, number) = (u64::from_be_bytes(*sequence), u64::from_be_bytes(*number));
            if kind == FRAGMENT
                && let Some(is_last) = fragments.continue_list(sequence, number)
            {
                let message = ListMessage::Fragments(sequence);
                return Ok(match is_last {
                    Ok(is_last) => ChannelEvent::ListContinued {
                        message,
                        piece: rest,
                        is_last,
                    },
                    Err(refusal) => ChannelEvent::ListBroken { message, refusal },
                });
            }
            let whole = match (kind, rest) {
                (FIRST_FRAGMENT, [0, piece @ ..]) => {
                    if number > 1
                        && let Some(list) = LargeList::in_fragments(sequence, number, piece)
                    {
                        return match fragments.start_list(sequence, number) {
                            Ok(()) => Ok(ChannelEvent::ListBegun(list)),
                            Err(refusal) => Err(Refused {
                                refusal,
                                caller: list.from,
                            }),
                        };
                    }
                    fragments.start_message(sequence, number, piece)
                }
                (FIRST_FRAGMENT, _) => return Err(Refusal::Message.into()),
                _ => fragments.continue_message(sequence, number, rest),
            };
            match whole {
                Ok(None) => Ok(ChannelEvent::Nothing),
                Ok(Some(whole)) => {
                    *assembled = whole;
                    terms(assembled, false)
                }
                Err(RefusedFragment { refusal, beginning }) => {
                    *assembled = beginning;
                    let payload = Raw::parse(assembled).ok().map(|(_, payload)| payload);
                    let caller = payload.and_then(caller);
                    Err(Refused { refusal, caller })
                }
            }
        }
        _ => Err(Refusal::Message.into()),
    }
}

/// Reads a control message and a payload, each after a version byte if `is_versioned`.
fn terms(bytes: &[u8], is_versioned: bool) -> Result<ChannelEvent<'_>, Refused<'_>> {
    let (read, extra): (fn(_) -> _, Refusal) = match is_versioned {
        true => (Raw::versioned, TermError::TrailingBytes.into()),
        false => (Raw::parse, Refusal::Message),
    };
    let (control, rest) = read(bytes)?;
    let refused = |refusal: Refusal| Refused {
        refusal,
        caller: rest.get(is_versioned.into()..).and_then(caller),
    };
    let (control, has_payload) = Control::read(control).map_err(refused)?;
    if !has_payload {
        return Ok(ChannelEvent::Message(control, None));
    }
    let (payload, after) = read(rest).map_err(|error| refused(error.into()))?;
    if !after.is_empty() {
        return Err(refused(extra));
    }
    Ok(ChannelEvent::Message(control, Some(payload)))
}

/// Reads the caller from the beginning of a packet with a call, or with the first fragment of one.
fn caller_of_packet(packet: &[u8]) -> Option<Raw<'_>> {
    let payload = match packet {
        [VERSION, FIRST_FRAGMENT, rest @ ..] => {
            let (_, terms) = rest.split_at_checked(FRAGMENT_NUMBERS_BYTES)?;
            let (&0, terms) = terms.split_first()? else {
                return None;
            };
            Raw::parse(terms).ok()?.1
        }
        _ => terms_of_packet(packet)?.1,
    };
    caller(payload)
}

/// Reads the beginning of a packet of `size` bytes with a list that is to be read piecewise.
fn list_of_packet(size: usize, beginning: &[u8]) -> Option<LargeList<'_>> {
    let (control, payload) = terms_of_packet(beginning)?;
    LargeList::in_packet(size, control, payload)
}

/// Reads the control message of a packet, and returns it with the bytes of the payload, which may
/// be incomplete.
fn terms_of_packet(packet: &[u8]) -> Option<(Raw<'_>, &[u8])> {
    match packet {
        [PASS_THROUGH, rest @ ..] => match Raw::versioned(rest).ok()? {
            (control, [VERSION, payload @ ..]) => Some((control, payload)),
            _ => None,
        },
        [VERSION, HEADER, 0, rest @ ..] => Raw::parse(rest).ok(),
        _ => None,
    }
}

/// Reads the caller of a call, `{'$gen_call', Caller, Request}`, whose request may be incomplete or
/// invalid.
fn caller(payload: &[u8]) -> Option<Raw<'_>> {
    let parts = match payload {
        [tag::SMALL_TUPLE, 3, parts @ ..] | [tag::LARGE_TUPLE, 0, 0, 0, 3, parts @ ..] => parts,
        _ => return None,
    };
    let (kind, rest) = Raw::parse(parts).ok()?;
    let (caller, _) = Raw::parse(rest).ok()?;
    let is_call = kind.is_atom("$gen_call") && caller.bytes().len() <= CALLER_BYTES_MAX;
    is_call.then_some(caller)
}
