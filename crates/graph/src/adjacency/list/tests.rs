//! Tests of lists.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{BLOCK_KEYS_MAX, List, MERGE_KEYS_MAX};
use crate::key::Key;

/// Numbers that the tests draw from: enough for a dozen blocks.
const NUMBERS: u32 = 6_000;

fn key(number: u32) -> Key {
    Key::from_number(number)
}

fn list_of(numbers: impl IntoIterator<Item = u32>) -> List {
    let mut numbers = numbers.into_iter();
    let mut list = List::of(key(numbers.next().unwrap()));
    numbers.for_each(|number| assert!(list.insert(key(number))));
    list
}

fn all(list: &List) -> Vec<u32> {
    let mut out = Vec::new();
    list.slice(None, usize::MAX, &mut out);
    out.iter().map(|key| key.number()).collect()
}

/// Checks the invariants of a list.
fn check_shape(list: &List) {
    match list {
        List::Short(run) => {
            assert!(run.len() <= BLOCK_KEYS_MAX);
            assert!(run.is_sorted_by(|a, b| a < b));
        }
        List::Long(long) => {
            assert!(
                long.len > MERGE_KEYS_MAX,
                "short enough for one run: {}",
                long.len
            );
            assert!(long.blocks.len() >= 2);
            assert_eq!(
                long.blocks
                    .iter()
                    .map(|block| block.keys.len())
                    .sum::<usize>(),
                long.len
            );
            for block in &long.blocks {
                assert!((1..=BLOCK_KEYS_MAX).contains(&block.keys.len()));
                assert_eq!(block.first, block.keys[0]);
            }
            let keys = || long.blocks.iter().flat_map(|block| block.keys.iter());
            assert!(keys().is_sorted_by(|a, b| a < b));
        }
    }
}

#[test]
fn a_run_becomes_blocks_one_key_past_the_maximum_and_a_run_again_well_below() {
    for late in [0, 300, 2_000] {
        let numbers = (1..=BLOCK_KEYS_MAX as u32).map(|number| number * 2 + 1);
        let mut list = list_of(numbers.clone());
        assert!(matches!(list, List::Short(_)));
        assert!(list.insert(key(late)));
        assert!(matches!(&list, List::Long(long) if long.blocks.len() == 2));
        check_shape(&list);
        for number in numbers {
            assert!(list.remove(key(number)));
            check_shape(&list);
            assert_eq!(matches!(list, List::Short(_)), list.len() <= MERGE_KEYS_MAX);
        }
        assert_eq!(all(&list), [late]);
    }
}

/// Regression, found with random ranges: of two blocks, the small one lost its last key while the
/// other was too large to merge, and a long list with one block remained.
#[test]
fn a_list_becomes_one_run_when_its_other_block_empties() {
    let mut list = list_of(0..=BLOCK_KEYS_MAX as u32);
    assert!(list.remove(key(BLOCK_KEYS_MAX as u32)));
    check_shape(&list);
    assert!(matches!(list, List::Short(_)));
    assert_eq!(list.len(), BLOCK_KEYS_MAX);
}

#[test]
fn a_key_can_be_inserted_at_every_position_of_a_full_block() {
    let full = BLOCK_KEYS_MAX as u32;
    for gap in 0..=full {
        let numbers = (0..=full).filter(|&number| number != gap);
        let mut list = list_of(numbers.clone());
        assert!(list.insert(key(gap)), "gap at {gap}");
        check_shape(&list);
        assert!(all(&list).into_iter().eq(0..=full), "gap at {gap}");

        // The same for the first of several blocks.
        let mut list = list_of(numbers.chain(full + 1..full * 3));
        assert!(list.insert(key(gap)), "gap at {gap}");
        check_shape(&list);
        assert!(all(&list).into_iter().eq(0..full * 3), "gap at {gap}");
    }
}

#[test]
fn ascending_keys_fill_their_blocks() {
    let list = list_of(0..100 * BLOCK_KEYS_MAX as u32);
    let List::Long(long) = &list else {
        panic!("one run")
    };
    // The first block is split before the order of insertion is known.
    assert!(long.blocks.len() <= 101, "{} blocks", long.blocks.len());
}

#[test]
fn removing_keys_merges_blocks() {
    let mut list = list_of(0..NUMBERS);
    for number in (0..NUMBERS).filter(|number| number % 16 != 0) {
        assert!(list.remove(key(number)));
    }
    check_shape(&list);
    let List::Long(long) = &list else {
        panic!("one run")
    };
    assert!(
        long.blocks.len() <= 3,
        "{} blocks for {} keys",
        long.blocks.len(),
        list.len()
    );
}

/// A range of keys with a regular step, from either end, to insert or to remove.
#[derive(Debug, Clone)]
struct KeyRange {
    insert: bool,
    descending: bool,
    start: u32,
    step: u32,
    count: u32,
}

fn key_ranges() -> impl Strategy<Value = Vec<KeyRange>> {
    let range = (
        any::<bool>(),
        any::<bool>(),
        0..NUMBERS,
        1..8u32,
        1..1_500u32,
    )
        .prop_map(|(insert, descending, start, step, count)| KeyRange {
            insert,
            descending,
            start,
            step,
            count,
        });
    prop::collection::vec(range, 1..24)
}

proptest! {
    #[test]
    fn a_list_is_a_sorted_set(key_ranges in key_ranges(), limit in 1..2_000usize) {
        // One key stays, as a page has no empty lists.
        let mut model = BTreeSet::from([NUMBERS]);
        let mut list = list_of([NUMBERS]);
        for range in key_ranges {
            let forth = (0..range.count).map(|i| (range.start + i * range.step) % NUMBERS);
            let mut numbers: Vec<u32> = forth.collect();
            if range.descending {
                numbers.reverse();
            }
            for number in numbers {
                if range.insert {
                    prop_assert_eq!(list.insert(key(number)), model.insert(number));
                } else {
                    prop_assert_eq!(list.remove(key(number)), model.remove(&number));
                }
                prop_assert_eq!(list.contains(key(number)), range.insert);
            }
            check_shape(&list);
            prop_assert_eq!(list.len(), model.len());
            prop_assert!(all(&list).into_iter().eq(model.iter().copied()));

            let mut paged = Vec::new();
            loop {
                let before = paged.len();
                list.slice(paged.last().copied(), limit, &mut paged);
                prop_assert!(paged.len() - before <= limit && paged.len() <= model.len());
                if paged.len() - before < limit {
                    break;
                }
            }
            prop_assert!(paged.iter().map(|key| key.number()).eq(model.iter().copied()));
        }
    }

    #[test]
    fn a_slice_starts_above_any_cursor(
        numbers in prop::collection::btree_set(0..NUMBERS, 1..3_000),
        after in 0..NUMBERS,
        limit in 0..4_000usize,
    ) {
        let list = list_of(numbers.iter().copied());
        let mut out = vec![key(7)];
        list.slice(Some(key(after)), limit, &mut out);
        let above = numbers.range(after + 1..).take(limit).copied();
        prop_assert!(out.iter().map(|key| key.number()).eq([7].into_iter().chain(above)));
    }
}
