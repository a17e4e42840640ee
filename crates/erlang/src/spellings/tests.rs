use std::sync::Arc;

use super::*;
use crate::bed::peer::{atom, binary, integer, tuple};

/// A graph in which all these are.
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

fn written(spellings: &Spellings, id: &Id) -> Vec<u8> {
    let mut out = Vec::new();
    spellings.write(&mut out, id);
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
fn ids_come_back_as_they_were_put_in_after_any_number_of_lives() {
    let graph = graph(&terms());
    let mut records = Vec::new();
    for life in 0..3 {
        let mut spellings = Spellings::kept(&graph, &records);
        assert!(spellings.take_unsaved().is_empty());
        if life == 0 {
            for term in terms() {
                spellings.remember(&graph, &id(&term), &term);
            }
            records = spellings.take_unsaved();
        } else {
            records = spellings.records();
        }
        for term in terms() {
            assert_eq!(written(&spellings, &id(&term)), term, "life {life}");
        }
    }
}

#[test]
fn the_last_spelling_is_right_be_it_the_plain_one() {
    let spelt = [
        atom("alice"),
        b"k\0\x05alice".to_vec(),
        binary(b"alice"),
        atom("alice"),
    ];
    let graph = graph(&spelt[..1]);
    let mut spellings = Spellings::kept(&graph, &[]);
    let mut records = Vec::new();
    for term in spelt {
        spellings.remember(&graph, &id(&term), &term);
        records.extend(spellings.take_unsaved());
        let again = Spellings::kept(&graph, &records);
        assert_eq!(written(&again, &id(&term)), term);
    }
}

#[test]
fn records_that_were_cut_or_damaged_end_what_is_known_and_harm_nothing() {
    let graph = graph(&terms());
    let mut spellings = Spellings::kept(&graph, &[]);
    for term in terms() {
        spellings.remember(&graph, &id(&term), &term);
    }
    let records = spellings.take_unsaved();
    for end in 0..=records.len() {
        let known = Spellings::kept(&graph, &records[..end]).terms.len();
        assert!(known <= spellings.terms.len());
        let padded = [&records[..end], &[0; 100]].concat();
        assert!((known..=known + 1).contains(&Spellings::kept(&graph, &padded).terms.len()));
    }
}

#[test]
fn ids_that_are_gone_are_forgotten_and_those_of_one_large_call_are_not() {
    let many: Vec<_> = (0..40_000)
        .map(|number| atom(&format!("user_{number}")))
        .collect();
    let graph = graph(&many);
    let mut spellings = Spellings::default();
    for term in &many {
        spellings.remember(&graph, &id(term), term);
    }
    assert_eq!(spellings.terms.len(), many.len());
    for term in &many {
        graph
            .unsubscribe(&id(term), &Id::parse("rj").unwrap())
            .unwrap();
    }
    let records = spellings.records();
    assert!(Spellings::kept(&graph, &records).terms.is_empty());
    spellings.forget_the_gone(&graph);
    assert_eq!((spellings.terms.len(), spellings.bytes), (0, 0));
}
