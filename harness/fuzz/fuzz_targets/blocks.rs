//! Any bytes as a block of the graph's store: refused, or pairs that ascend from the block's key on
//! and are the same when they are packed again. And any pairs in blocks: each fits, and all come
//! back.
#![no_main]

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/graph/src/store/block.rs"]
mod block;

#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/graph/src/limits.rs"]
mod limits;

/// Keys, of any number.
mod key {
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Key(u32);

    impl Key {
        pub(crate) const fn number(self) -> u32 {
            self.0
        }

        pub(crate) const fn from_number(number: u32) -> Self {
            Self(number)
        }
    }
}

use std::collections::BTreeSet;

use block::{Packer, Pair, pair, unpack, unpack_runs};
use libfuzzer_sys::fuzz_target;

/// Bytes of a block, as the store has them.
const BLOCK_BYTES_MAX: usize = limits::Limits::USUAL.block_bytes_max;

/// Bits of pairs that count: all; those of few owners with neighbouring ends; those of many owners
/// with few ends.
const MASKS: [Pair; 3] = [Pair::MAX, 0x3_0000_03ff, 0xffff_ffff_0000_0003];

fuzz_target!(|data: &[u8]| {
    let Some((key, bytes)) = data.split_first_chunk() else {
        return;
    };
    read(u64::from_le_bytes(*key), bytes);
    for mask in MASKS {
        let chunks = bytes.chunks_exact(8);
        let pairs = chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().expect("8 bytes")));
        write(&pairs.map(|pair| pair & mask).collect());
    }
});

/// Reads bytes as the block under `key`.
fn read(key: Pair, bytes: &[u8]) {
    let Some(pairs) = unpacked(key, bytes) else {
        return;
    };
    assert!(pairs[0] >= key);
    assert!(pairs.is_sorted_by(|a, b| a < b));
    let again = packed(key, &pairs);
    assert!(again.len() <= bytes.len());
    assert_eq!(unpacked(key, &again), Some(pairs.clone()));
    for end in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        if let Some(found) = unpacked(key, &bytes[..end.min(bytes.len() - 1)]) {
            assert!(pairs.starts_with(&found) && found.len() < pairs.len());
        }
    }
}

/// Cuts pairs into blocks as the store does, and reads them.
fn write(pairs: &BTreeSet<Pair>) {
    let mut packer = Packer::default();
    let mut found = Vec::new();
    let mut left = pairs.iter().copied().peekable();
    while let Some(&first) = left.peek() {
        packer.begin(first);
        while packer.fits(BLOCK_BYTES_MAX)
            && let Some(pair) = left.next()
        {
            packer.push(pair);
        }
        assert!(packer.bytes().len() <= BLOCK_BYTES_MAX);
        found.extend(unpacked(packer.key(), packer.bytes()).expect("it was packed here"));
    }
    assert!(found.iter().eq(pairs));
}

/// The pairs of a block, read singly and by their owners.
fn unpacked(key: Pair, bytes: &[u8]) -> Option<Vec<Pair>> {
    let (mut pairs, mut runs) = (Vec::new(), Vec::new());
    let singly = unpack(key, bytes, |pair| pairs.push(pair));
    let by_owner = unpack_runs(key, bytes, &mut Vec::new(), |owner, others| {
        assert!(!others.is_empty());
        runs.extend(others.iter().map(|other| pair(owner.number(), other.number())));
    });
    assert_eq!(singly, by_owner);
    assert_eq!(pairs, runs);
    singly.ok().map(|()| pairs)
}

fn packed(key: Pair, pairs: &[Pair]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.begin(key);
    pairs.iter().for_each(|&pair| packer.push(pair));
    packer.bytes().to_vec()
}
