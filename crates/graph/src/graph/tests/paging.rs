//! Walks over a long list while it changes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Graph, id, subscribers};
use crate::id::Id;

/// Subscribers are numbers below this: enough for several blocks.
const NUMBERS: u32 = 4_000;

proptest! {
    #[test]
    fn a_walk_visits_each_stable_subscriber_once_and_none_that_never_existed(
        start in prop::collection::btree_set(0..NUMBERS, 0..NUMBERS as usize),
        changes in prop::collection::vec(
            prop::collection::vec((any::<bool>(), 0..NUMBERS, 1..400u32), 0..4),
            0..30,
        ),
        limit in 1..700usize,
    ) {
        let graph = Graph::memory();
        let star = id("star");
        let star_key = graph.hold(&star).unwrap();
        for &number in &start {
            graph.subscribe(&Id::from(number), &star).unwrap();
        }
        let mut stayed = start.clone();
        let mut ever = start.clone();
        let mut now = start;
        let mut changes = changes.into_iter();
        let mut met = Vec::new();
        loop {
            let before = met.len();
            graph.subscribers(star_key, met.last().copied(), limit, &mut met);
            prop_assert!(met.len() - before <= limit && met.len() <= NUMBERS as usize);
            if met.len() - before < limit {
                break;
            }
            for (add, from, count) in changes.next().unwrap_or_default() {
                for number in from..(from + count).min(NUMBERS) {
                    if add {
                        let new = graph.subscribe(&Id::from(number), &star);
                        prop_assert_eq!(new, Ok(now.insert(number)));
                        ever.insert(number);
                    } else {
                        let there = graph.unsubscribe(&Id::from(number), &star);
                        prop_assert_eq!(there, Ok(now.remove(&number)));
                        stayed.remove(&number);
                    }
                }
            }
        }
        prop_assert!(met.is_sorted_by(|a, b| a < b), "a subscriber was visited twice");
        let met: BTreeSet<u32> = met.iter().map(|key| key.number()).collect();
        prop_assert!(stayed.is_subset(&met));
        prop_assert!(met.is_subset(&ever));
        prop_assert!(subscribers(&graph, star_key).iter().map(|key| key.number()).eq(now));
    }
}

#[test]
fn a_limit_is_respected_around_the_size_of_one_locked_slice() {
    let graph = Graph::memory();
    for number in 1..=10_000 {
        graph.subscribe(&Id::from(number), &Id::from(0)).unwrap();
    }
    let star = graph.find(&Id::from(0)).unwrap();
    for limit in [
        0,
        1,
        4_095,
        4_096,
        4_097,
        8_192,
        9_999,
        10_000,
        10_001,
        usize::MAX,
    ] {
        let mut out = Vec::new();
        graph.subscribers(star, None, limit, &mut out);
        let expected = 1..=limit.min(10_000) as u32;
        assert!(
            out.iter().map(|key| key.number()).eq(expected),
            "limit {limit}"
        );
    }
}

#[test]
fn keys_already_in_the_buffer_are_kept_and_not_used_as_cursor() {
    let graph = Graph::memory();
    for number in 1..=5_000 {
        graph.subscribe(&Id::from(number), &Id::from(0)).unwrap();
    }
    let star = graph.find(&Id::from(0)).unwrap();
    let mut out = vec![graph.find(&Id::from(4_000)).unwrap()];
    graph.subscribers(star, None, usize::MAX, &mut out);
    assert!(
        out.iter()
            .map(|key| key.number())
            .eq([4_000].into_iter().chain(1..=5_000))
    );
}
