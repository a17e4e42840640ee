use std::sync::Arc;

use super::*;
use crate::sim::peer::{atom, binary, integer, tuple};

/// A graph that contains all these ids.
fn graph(terms: &[Vec<u8>]) -> Arc<Graph> {
    let graph = Arc::new(Graph::memory());
    for term in terms {
        graph
            .subscribe(&id(term), &Id::parse("rj").unwrap())
            .unwrap();
    }
    graph
}

fn id(term: &[u8]) -> Id {
    ids::of_term(Raw::parse(term).unwrap().0).unwrap()
}

fn written(id_terms: &IdTerms, id: &Id) -> Vec<u8> {
    let mut out = Vec::new();
    id_terms.write(&mut out, id);
    out
}

fn terms() -> Vec<Vec<u8>> {
    vec![
        atom("alice"),
        binary(b"bob"),
        b"k\0\x05carol".to_vec(),
        integer(7),
        atom("8"),
        tuple(&[atom("user"), integer(123)]),
    ]
}

#[test]
fn ids_come_back_unchanged_after_any_number_of_restarts() {
    let graph = graph(&terms());
    let mut records = Vec::new();
    for life in 0..3 {
        let mut id_terms = IdTerms::restore(&graph, &records, false);
        assert!(id_terms.take_unsaved().is_empty());
        if life == 0 {
            for term in terms() {
                id_terms.remember(&graph, &id(&term), &term);
            }
            records = id_terms.take_unsaved();
        } else {
            records = id_terms.records();
        }
        for term in terms() {
            assert_eq!(written(&id_terms, &id(&term)), term, "life {life}");
        }
    }
}

#[test]
fn the_last_term_of_an_id_is_the_valid_one() {
    let spelt = [
        atom("alice"),
        b"k\0\x05alice".to_vec(),
        binary(b"alice"),
        atom("alice"),
    ];
    let graph = graph(&spelt[..1]);
    let mut id_terms = IdTerms::restore(&graph, &[], false);
    let mut records = Vec::new();
    for term in spelt {
        id_terms.remember(&graph, &id(&term), &term);
        records.extend(id_terms.take_unsaved());
        let again = IdTerms::restore(&graph, &records, false);
        assert_eq!(written(&again, &id(&term)), term);
    }
}

#[test]
fn everything_after_a_damaged_record_is_ignored() {
    let graph = graph(&terms());
    let mut id_terms = IdTerms::restore(&graph, &[], false);
    for term in terms() {
        id_terms.remember(&graph, &id(&term), &term);
    }
    let records = id_terms.take_unsaved();
    for end in 0..=records.len() {
        let known = IdTerms::restore(&graph, &records[..end], false).terms.len();
        assert!(known <= id_terms.terms.len());
        let padded = [&records[..end], &[0; 100]].concat();
        assert!(
            (known..=known + 1).contains(&IdTerms::restore(&graph, &padded, false).terms.len())
        );
    }
}

#[test]
fn only_terms_of_ids_that_no_longer_exist_are_forgotten() {
    let many: Vec<_> = (0..40_000)
        .map(|number| atom(&format!("user_{number}")))
        .collect();
    let graph = graph(&many);
    let mut id_terms = IdTerms::default();
    for term in &many {
        id_terms.remember(&graph, &id(term), term);
    }
    assert_eq!(id_terms.terms.len(), many.len());
    for term in &many {
        graph
            .unsubscribe(&id(term), &Id::parse("rj").unwrap())
            .unwrap();
    }
    let records = id_terms.records();
    assert!(IdTerms::restore(&graph, &records, false).terms.is_empty());
    id_terms.forget_unused(&graph);
    assert_eq!((id_terms.terms.len(), id_terms.bytes), (0, 0));
}

/// A node of a cluster was killed before it had stored a subscription that had been acknowledged
/// and is in the log.
#[test]
fn terms_of_ids_that_may_still_be_in_the_log_are_kept() {
    let mut records = Vec::new();
    {
        let graph = graph(&terms());
        let mut id_terms = IdTerms::restore(&graph, &[], true);
        for term in terms() {
            id_terms.remember(&graph, &id(&term), &term);
        }
        records.extend(id_terms.take_unsaved());
    }
    let restored = IdTerms::restore(&Graph::memory(), &records, true);
    for term in terms() {
        assert_eq!(written(&restored, &id(&term)), term);
    }
    // They are in the rewritten file.
    let again = IdTerms::restore(&graph(&terms()), &restored.records(), false);
    for term in terms() {
        assert_eq!(written(&again, &id(&term)), term);
    }
}

#[test]
fn terms_beyond_a_bound_are_not_remembered() {
    let number = |number: usize| atom(&format!("{number:0>128}"));
    let many = (64 << 20) / (2 * 128) + 1;
    let graph = graph(&[number(0)]);
    let mut id_terms = IdTerms::default();
    for term in (0..many).map(number) {
        graph
            .subscribe(&id(&term), &Id::parse("rj").unwrap())
            .unwrap();
        id_terms.remember(&graph, &id(&term), &term);
    }
    assert!(id_terms.bytes <= 64 << 20, "{} bytes", id_terms.bytes);
    let (first, last) = (number(0), number(many - 1));
    assert_eq!(written(&id_terms, &id(&first)), first);
    let text = &last[last.len() - 128..];
    assert_eq!(written(&id_terms, &id(&last)), binary(text));
    // When others are used no more, there is room again.
    for term in (0..many / 2).map(number) {
        graph
            .unsubscribe(&id(&term), &Id::parse("rj").unwrap())
            .unwrap();
    }
    let is_remembered = |id_terms: &mut IdTerms| {
        id_terms.remember(&graph, &id(&last), &last);
        written(id_terms, &id(&last)) == last
    };
    let offers = (0..many).take_while(|_| !is_remembered(&mut id_terms));
    assert!((1..many).contains(&offers.count()));
}
