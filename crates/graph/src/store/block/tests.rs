//! Tests of blocks.

use proptest::prelude::*;

use super::*;

fn unpacked(key: Pair, bytes: &[u8]) -> Result<Vec<Pair>, Malformed> {
    let mut pairs = Vec::new();
    unpack(key, bytes, |pair| pairs.push(pair))?;
    Ok(pairs)
}

fn packed(key: Pair, pairs: &[Pair]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.begin(key);
    for &pair in pairs {
        let before = packer.bytes().len();
        packer.push(pair);
        assert!(packer.bytes().len() - before <= PAIR_BYTES_MAX);
    }
    packer.bytes().to_vec()
}

/// Keys of which many are equal or adjacent, and the ends of the range.
fn key() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..4u32,
        0..1_000_000u32,
        u32::MAX - 3..=u32::MAX,
        any::<u32>()
    ]
}

proptest! {
    #[test]
    fn packed_pairs_are_unpacked_under_any_key_below_them(
        edges in prop::collection::btree_set((key(), key()), 1..200),
        below in any::<u64>(),
    ) {
        let pairs: Vec<_> = edges.iter().map(|&(a, b)| pair(a, b)).collect();
        for key in [0, pairs[0], below.min(pairs[0])] {
            prop_assert_eq!(unpacked(key, &packed(key, &pairs)), Ok(pairs.clone()));
        }
    }

    #[test]
    fn any_bytes_are_malformed_or_ascending_pairs(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        key in key(),
    ) {
        let key = pair(key, 0);
        if let Ok(pairs) = unpacked(key, &bytes) {
            prop_assert!(pairs[0] >= key);
            prop_assert!(pairs.is_sorted_by(|a, b| a < b));
        }
    }
}

#[test]
fn a_truncated_block_is_malformed_or_a_prefix() {
    let pairs = [
        pair(1, 2),
        pair(1, 70_000),
        pair(9, 0),
        pair(9, 1),
        pair(u32::MAX, 5),
    ];
    let bytes = packed(0, &pairs);
    for end in 0..bytes.len() {
        if let Ok(found) = unpacked(0, &bytes[..end]) {
            assert!(
                pairs.starts_with(&found) && found.len() < pairs.len(),
                "cut at {end}"
            );
        }
    }
}
