//! Packet framing: a size, then as many bytes.
//!
//! A packet that arrived in one piece is not copied. Memory grows with the bytes that have arrived,
//! never with an announced size; a packet that is too large is skipped without being stored.

use crate::limits::CALL_BEGINNING_BYTES;

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

/// The reader of packets. It holds the beginning of an incomplete packet.
#[derive(Debug, Default)]
pub(crate) struct PacketReader {
    held: Vec<u8>,
    /// Whether the packet in `held` was returned.
    is_spent: bool,
    /// Bytes to skip of a packet that is too large.
    skipping: usize,
}

/// The next packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// A complete packet.
    Whole(&'a [u8]),
    /// The beginning of a packet that is too large. The rest of it is skipped.
    TooLarge(&'a [u8]),
}

impl LengthPrefix {
    const fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// The bytes that are kept of a packet that is too large.
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
    /// Takes the next packet off `input`; `None` if it holds no complete one, in which case all
    /// input was taken.
    pub(crate) fn next<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
        width: LengthPrefix,
        bytes_max: usize,
    ) -> Option<Packet<'a>> {
        if self.is_spent {
            self.is_spent = false;
            self.held.clear();
            self.held.shrink_to(KEPT_BYTES);
        }
        let skipped = self.skipping.min(input.len());
        self.skipping -= skipped;
        *input = &input[skipped..];
        let prefix = width.bytes();
        if self.held.is_empty() && input.len() >= prefix {
            let (size, rest) = input.split_at(prefix);
            let size = width.size(size);
            if size <= bytes_max && rest.len() >= size {
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

    /// The packets of a stream that arrives in these pieces; `None` stands for one that is too
    /// large.
    fn packets(pieces: &[&[u8]], width: LengthPrefix, bytes_max: usize) -> Vec<Option<Vec<u8>>> {
        let mut packets = PacketReader::default();
        let mut found = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(packet) = packets.next(&mut piece, width, bytes_max) {
                found.push(match packet {
                    Packet::Whole(bytes) => Some(bytes.to_vec()),
                    Packet::TooLarge(_) => None,
                });
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
    fn a_size_that_lies_takes_no_memory() {
        for lie in [b"\xff\xff\xff\xffabc", b"\x00\x0f\xff\xffabc"] {
            let mut packets = PacketReader::default();
            let mut input: &[u8] = lie;
            assert_eq!(packets.next(&mut input, LengthPrefix::Four, 1 << 20), None);
            assert!(packets.held.capacity() < 64);
        }
    }

    #[test]
    fn the_beginning_of_a_packet_that_is_too_large_is_told() {
        let mut packets = PacketReader::default();
        let mut input: &[u8] = b"\x00\x02\x00\x00";
        assert_eq!(packets.next(&mut input, LengthPrefix::Four, 1 << 16), None);
        let block = [b'x'; 1 << 17];
        let mut input = &block[..];
        let beginning = Packet::TooLarge(&block[..CALL_BEGINNING_BYTES]);
        assert_eq!(
            packets.next(&mut input, LengthPrefix::Four, 1 << 16),
            Some(beginning)
        );
        assert_eq!(packets.next(&mut input, LengthPrefix::Four, 1 << 16), None);
        assert!(input.is_empty() && packets.held.is_empty());
    }
}
