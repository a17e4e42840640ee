//! Scopes against a model that looks at every entry.

use proptest::prelude::*;

use crate::Scope;
use crate::scope::{ENTRIES_MAX, TooManyEntries};

/// Returns what an entry means, entry by entry.
fn model(entries: &[String], id: &str) -> bool {
    entries.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => id.as_bytes().starts_with(prefix.as_bytes()),
        None => entry == id,
    })
}

/// Short texts of few letters, so that they are often prefixes of each other.
fn entry() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab/*]{0,4}",
        2 => "[ab/]{0,3}\\*",
        1 => "[aé🦀*]{0,3}",
    ]
}

proptest! {
    #[test]
    fn a_scope_allows_what_one_of_its_entries_allows(
        entries in prop::collection::vec(entry(), 0..12),
        ids in prop::collection::vec(entry(), 1..20),
    ) {
        let scope = Scope::new(entries.iter().map(String::as_str)).unwrap();
        for id in &ids {
            prop_assert_eq!(scope.allows(id), model(&entries, id), "{:?} {}", scope, id);
        }
        prop_assert_eq!(scope.is_empty(), entries.is_empty());
    }

    #[test]
    fn one_id_more_allows_that_id_and_nothing_else(
        entries in prop::collection::vec(entry(), 0..8),
        more in entry(),
        ids in prop::collection::vec(entry(), 1..20),
    ) {
        let before = Scope::new(entries.iter().map(String::as_str)).unwrap();
        let after = before.clone().with_id(&more);
        prop_assert!(after.allows(&more));
        for id in &ids {
            prop_assert_eq!(after.allows(id), before.allows(id) || *id == more);
        }
    }

    #[test]
    fn in_a_scope_of_exact_ids_no_character_has_a_meaning(
        exact in prop::collection::vec(entry(), 0..8),
        ids in prop::collection::vec(entry(), 1..20),
    ) {
        let scope = Scope::exact(exact.iter().map(String::as_str));
        for id in &ids {
            prop_assert_eq!(scope.allows(id), exact.contains(id));
        }
    }
}

#[test]
fn a_scope_has_a_bound() {
    assert!(Scope::new(vec!["a"; ENTRIES_MAX]).is_ok());
    assert_eq!(Scope::new(vec!["a"; ENTRIES_MAX + 1]), Err(TooManyEntries));
}

#[test]
fn the_scope_of_all_ids_allows_all() {
    for id in ["", "a", "*", "🦀"] {
        assert!(Scope::all().allows(id));
        assert!(Scope::new(["*"]).unwrap().allows(id));
        assert!(!Scope::default().allows(id));
    }
}
