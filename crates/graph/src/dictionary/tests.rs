//! Tests of the dictionary.

use std::collections::BTreeSet;

use super::shard::RESTING_MIN;
use super::{Dictionary, SHARDS};
use crate::error::GraphError;
use crate::id::Id;
use crate::key::INTERNED_FROM;

fn name(number: usize) -> Id {
    Id::Text(format!("name {number}").into())
}

#[test]
fn a_name_has_one_key_while_it_is_held() {
    let dictionary = Dictionary::new();
    let key = dictionary.hold(&name(1)).unwrap();
    assert!(key.number() >= INTERNED_FROM);
    assert_eq!(dictionary.hold(&name(1)), Ok(key));
    dictionary.release(key, 1);
    assert_eq!(dictionary.find(&name(1)), Some(key));
    assert_eq!(dictionary.name(key), Some(name(1)));
    dictionary.release(key, 1);
    assert_eq!(dictionary.find(&name(1)), None);
    assert_eq!(dictionary.name(key), None);
    assert_eq!(dictionary.entries(), 0);
}

#[test]
fn held_names_have_different_keys() {
    let dictionary = Dictionary::new();
    let keys: BTreeSet<_> = (0..10_000)
        .map(|i| dictionary.hold(&name(i)).unwrap())
        .collect();
    assert_eq!(keys.len(), 10_000);
    for i in 0..10_000 {
        assert_eq!(
            dictionary.name(dictionary.find(&name(i)).unwrap()),
            Some(name(i))
        );
    }
}

/// Regression: `HashTable::entry` reserves room even for a removal, and rehashes everything for
/// that, which failed when the last name that fitted was removed. It depended on the seed of the
/// hasher.
#[test]
fn the_latest_name_can_be_removed_however_full_the_table_is() {
    let dictionary = Dictionary::new();
    for i in 0..5_000 {
        let key = dictionary.hold(&name(i)).unwrap();
        dictionary.release(key, 1);
        assert_eq!(dictionary.entries(), i);
        dictionary.hold(&name(i)).unwrap();
    }
}

#[test]
fn names_that_are_released_do_not_make_it_grow() {
    let dictionary = Dictionary::new();
    let places = SHARDS * (RESTING_MIN as usize + 2);
    for i in 0..5 * places {
        let key = dictionary.hold(&name(i)).unwrap();
        let place = (key.number() - INTERNED_FROM) as usize;
        assert!(place < places, "name {i} is at place {place}");
        dictionary.release(key, 1);
    }
    assert_eq!(dictionary.entries(), 0);
}

#[test]
fn a_key_is_in_quarantine_before_it_is_reused() {
    let dictionary = Dictionary::new();
    let key = dictionary.hold(&name(0)).unwrap();
    dictionary.release(key, 1);
    // All of them may be in one shard.
    for i in 1..=1024 {
        let other = dictionary.hold(&name(i)).unwrap();
        assert_ne!(other, key, "after {i} names");
        dictionary.release(other, 1);
    }
}

#[test]
fn a_full_dictionary_refuses_new_names_until_one_is_released() {
    let dictionary = Dictionary::with_places(2);
    let outcomes: Vec<_> = (0..1_000).map(|i| (i, dictionary.hold(&name(i)))).collect();
    assert_eq!(dictionary.entries(), 2 * SHARDS);
    let refused = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.is_err())
        .count();
    assert_eq!(refused, 1_000 - 2 * SHARDS);
    let (_, error) = outcomes
        .iter()
        .find(|(_, outcome)| outcome.is_err())
        .unwrap();
    assert_eq!(*error, Err(GraphError::DictionaryFull { entries: 2 }));
    for (i, outcome) in &outcomes {
        assert_eq!(dictionary.find(&name(*i)), outcome.clone().ok());
    }

    // A place freed in a full shard is reused at once, which is better than to refuse a name.
    for (i, outcome) in &outcomes {
        if let Ok(key) = outcome {
            dictionary.release(*key, 1);
            assert_eq!(dictionary.hold(&name(*i)), Ok(*key));
        }
    }
}
