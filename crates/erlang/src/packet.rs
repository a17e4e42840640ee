//! Packet framing: a size, then that many bytes.
//!
//! A packet that arrived in one piece is not copied. Memory grows with the bytes that have arrived,
//! never with an announced size. A packet that is too large is skipped without being stored, or
//! read piecewise if the caller decides so from its beginning.

use crate::limits::{CALL_BEGINNING_BYTES, PIECEWISE_PACKET_BYTES};

/// The width of the size before a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LengthPrefix {
    /// Two bytes, during the handshake.
    Two,
    /// Four bytes, after the handshake.
    Four,
}

/// Capacity that the buffer keeps at most after a packet.
const KEPT_BYTES: usize = 64 * 1024;

/// Reader of packets, which holds the beginning of an incomplete packet.
#[derive(Debug, Default)]
pub(crate) struct PacketReader {
    held: Vec<u8>,
    /// Whether the packet in `held` was returned already.
    is_spent: bool,
    /// Bytes to skip of a packet that is too large.
    skipping: usize,
    /// Bytes to come of a packet that is read piecewise.
    pieces_left: usize,
}

/// The next packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// A complete packet.
    Whole(&'a [u8]),
    /// The beginning of a packet that is too large. The rest of it is skipped.
    TooLarge(&'a [u8]),
    /// The beginning of a packet of `size` bytes that is read piecewise.
    Begun { size: usize, beginning: &'a [u8] },
    /// The next bytes of a packet that is read piecewise.
    Piece { bytes: &'a [u8], is_last: bool },
}

impl LengthPrefix {
    const fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// Returns how many bytes of a packet that is too large are kept.
    const fn beginning_bytes(self) -> usize {
        match self {
            Self::Two => 0,
            Self::Four => CALL_BEGINNING_BYTES,
        }
    }

    fn size(self, prefix: &[u8]) -> usize {
        prefix
            .iter()
            .fold(0, |size, &byte| size << 8 | usize::from(byte))
    }
}

impl PacketReader {
    /// Takes the next packet off `input`, or a piece of one. Returns `None` if it holds none, in
    /// which case all input was consumed. `is_piecewise` decides whether a packet of
    /// [`PIECEWISE_PACKET_BYTES`] or more is read piecewise, given its size and its first
    /// [`CALL_BEGINNING_BYTES`].
    pub(crate) fn next<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
        width: LengthPrefix,
        bytes_max: usize,
        is_piecewise: impl FnOnce(usize, &[u8]) -> bool,
    ) -> Option<Packet<'a>> {
        if self.is_spent {
            self.is_spent = false;
            self.held.clear();
            self.held.shrink_to(KEPT_BYTES);
        }
        let skipped = self.skipping.min(input.len());
        self.skipping -= skipped;
        *input = &input[skipped..];
        if self.pieces_left > 0 {
            let (bytes, rest) = input.split_at(self.pieces_left.min(input.len()));
            *input = rest;
            self.pieces_left -= bytes.len();
            let is_last = self.pieces_left == 0;
            return (!bytes.is_empty()).then_some(Packet::Piece { bytes, is_last });
        }
        let prefix = width.bytes();
        if self.held.is_empty() && input.len() >= prefix {
            let (size, rest) = input.split_at(prefix);
            let size = width.size(size);
            let is_small = size <= bytes_max && size < PIECEWISE_PACKET_BYTES;
            if is_small && rest.len() >= size {
                let (packet, rest) = rest.split_at(size);
                *input = rest;
                return Some(Packet::Whole(packet));
            }
        }
        self.hold(input, prefix);
        if self.held.len() < prefix {
            return None;
        }
        let size = width.size(&self.held[..prefix]);
        if size >= PIECEWISE_PACKET_BYTES {
            let begun = prefix + CALL_BEGINNING_BYTES;
            self.hold(input, begun);
            if self.held.len() < begun {
                return None;
            }
            if self.held.len() == begun && is_piecewise(size, &self.held[prefix..]) {
                self.pieces_left = size - CALL_BEGINNING_BYTES;
                self.is_spent = true;
                let beginning = &self.held[prefix..];
                return Some(Packet::Begun { size, beginning });
            }
        }
        if size > bytes_max {
            let kept = size.min(width.beginning_bytes());
            self.hold(input, prefix + kept);
            if self.held.len() < prefix + kept {
                return None;
            }
            self.skipping = size - kept;
            self.is_spent = true;
            return Some(Packet::TooLarge(&self.held[prefix..]));
        }
        self.hold(input, prefix + size);
        if self.held.len() < prefix + size {
            return None;
        }
        self.is_spent = true;
        Some(Packet::Whole(&self.held[prefix..]))
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Moves input to `held` until that has `bytes` bytes.
    fn hold(&mut self, input: &mut &[u8], bytes: usize) {
        let count = bytes.saturating_sub(self.held.len()).min(input.len());
        let (taken, rest) = input.split_at(count);
        self.held.extend(taken);
        *input = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the packets of a stream that arrives in these pieces; `None` for one that is too
    /// large.
    fn packets(pieces: &[&[u8]], width: LengthPrefix, bytes_max: usize) -> Vec<Option<Vec<u8>>> {
        let mut packets = PacketReader::default();
        let mut found = Vec::<Option<Vec<u8>>>::new();
        let mut missing = 0;
        for mut piece in pieces.iter().copied() {
            let is_piecewise = |size: usize, beginning: &[u8]| {
                assert!(size >= PIECEWISE_PACKET_BYTES);
                assert_eq!(beginning.len(), CALL_BEGINNING_BYTES);
                beginning[0] == b'L'
            };
            while let Some(packet) = packets.next(&mut piece, width, bytes_max, is_piecewise) {
                match packet {
                    Packet::Whole(bytes) => found.push(Some(bytes.to_vec())),
                    Packet::TooLarge(_) => found.push(None),
                    Packet::Begun { size, beginning } => {
                        missing = size - beginning.len();
                        found.push(Some(beginning.to_vec()));
                    }
                    Packet::Piece { bytes, is_last } => {
                        missing -= bytes.len();
                        assert_eq!(is_last, missing == 0);
                        let packet = found.last_mut().and_then(Option::as_mut);
                        packet.expect("it has begun").extend(bytes);
                    }
                }
            }
            assert!(piece.is_empty(), "all input is taken");
        }
        found
    }

    #[test]
    fn packets_are_alike_at_every_split() {
        let stream =
            b"\x00\x00\x00\x03abc\x00\x00\x00\x00\x00\x00\x00\x09too large\x00\x00\x00\x01d";
        let whole = vec![
            Some(b"abc".to_vec()),
            Some(Vec::new()),
            None,
            Some(b"d".to_vec()),
        ];
        assert_eq!(packets(&[stream], LengthPrefix::Four, 8), whole);
        for first in 0..stream.len() {
            for second in first..stream.len() {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(
                    packets(&pieces, LengthPrefix::Four, 8),
                    whole,
                    "{first}, {second}"
                );
            }
        }
    }

    #[test]
    fn a_false_size_takes_no_memory() {
        for lie in [b"\xff\xff\xff\xffabc", b"\x00\x0f\xff\xffabc"] {
            let mut packets = PacketReader::default();
            let mut input: &[u8] = lie;
            let next = packets.next(&mut input, LengthPrefix::Four, 1 << 20, |_, _| true);
            assert_eq!(next, None);
            assert!(packets.held.capacity() < 64);
        }
    }

    #[test]
    fn the_beginning_of_a_packet_that_is_too_large_is_returned() {
        let mut packets = PacketReader::default();
        let is_held = |_: usize, _: &[u8]| false;
        let (four, max) = (LengthPrefix::Four, 1 << 16);
        for block in [vec![b'x'; 1 << 17], vec![b'x'; 2 * PIECEWISE_PACKET_BYTES]] {
            let size = (block.len() as u32).to_be_bytes();
            let mut input: &[u8] = &size;
            assert_eq!(packets.next(&mut input, four, max, is_held), None);
            let mut input = &block[..];
            assert_eq!(
                packets.next(&mut input, four, max, is_held),
                Some(Packet::TooLarge(&block[..CALL_BEGINNING_BYTES]))
            );
            assert_eq!(packets.next(&mut input, four, max, is_held), None);
            assert!(input.is_empty() && packets.held.is_empty());
        }
    }

    #[test]
    fn packets_read_piecewise_are_alike_at_every_split_and_not_held() {
        let list = vec![b'L'; PIECEWISE_PACKET_BYTES + 5];
        let held = vec![b'h'; PIECEWISE_PACKET_BYTES];
        let mut stream = Vec::new();
        for packet in [&list[..], &held, b"small", &list, b"s"] {
            stream.extend((packet.len() as u32).to_be_bytes());
            stream.extend(packet);
        }
        let packet = |packet: &[u8]| Some(packet.to_vec());
        let whole = [&list[..], &held, b"small", &list, b"s"].map(packet);
        let max = PIECEWISE_PACKET_BYTES;
        for bytes in [1, 7, 4095, 8196, 8197, 65_536, stream.len()] {
            let pieces: Vec<_> = stream.chunks(bytes).collect();
            assert_eq!(packets(&pieces, LengthPrefix::Four, max), whole, "{bytes}");
        }
        // The announced size does not matter.
        let mut reader = PacketReader::default();
        let mut input = &[&[0xff; 4][..], &list].concat()[..];
        while let Some(packet) = reader.next(&mut input, LengthPrefix::Four, max, |_, _| true) {
            assert!(!matches!(packet, Packet::Whole(_) | Packet::TooLarge(_)));
        }
        assert!(input.is_empty() && reader.held_bytes() == 0);
    }
}
