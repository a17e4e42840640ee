//! Laws of the graph. The model, paging, threads and races have a file each.

mod durable;
mod model;
mod paging;
mod races;
mod threads;

use super::{Counts, Graph};
use crate::id::Id;
use crate::key::{INTERNED_FROM, Key};

fn id(text: &str) -> Id {
    Id::parse(text).unwrap()
}

fn subscribers(graph: &Graph, subject: Key) -> Vec<Key> {
    let mut out = Vec::new();
    graph.subscribers(subject, None, usize::MAX, &mut out);
    out
}

fn subscriptions(graph: &Graph, subscriber: Key) -> Vec<Key> {
    let mut out = Vec::new();
    graph.subscriptions(subscriber, None, usize::MAX, &mut out);
    out
}

#[test]
fn integers_below_2_to_31_are_their_own_key() {
    let graph = Graph::memory();
    for integer in [0, 1, INTERNED_FROM - 1] {
        let key = graph.find(&Id::from(integer)).unwrap();
        assert_eq!(key.number(), integer);
        assert_eq!(graph.hold(&Id::from(integer)), Ok(key));
        assert_eq!(graph.name(key), Some(Id::from(integer)));
    }
    assert_eq!(graph.counts(), Counts::default());
}

#[test]
fn other_ids_are_interned_when_held() {
    let graph = Graph::memory();
    for id in [
        id("2147483648"),
        id("9007199254740991"),
        id("ana"),
        id("01"),
    ] {
        assert_eq!(graph.find(&id), None);
        let key = graph.hold(&id).unwrap();
        assert!(key.number() >= INTERNED_FROM);
        assert_eq!(graph.find(&id), Some(key));
        assert_eq!(graph.name(key), Some(id));
    }
    assert_eq!(
        graph.counts(),
        Counts {
            ids: 4,
            edges: 0,
            dictionary_entries: 4
        }
    );
}

#[test]
fn an_edge_is_new_once_and_visible_from_both_ends() {
    let graph = Graph::memory();
    assert_eq!(graph.subscribe(&id("7"), &id("news")), Ok(true));
    assert_eq!(graph.subscribe(&id("7"), &id("news")), Ok(false));
    let (seven, news) = (
        graph.find(&id("7")).unwrap(),
        graph.find(&id("news")).unwrap(),
    );
    assert!(graph.is_subscribed(seven, news));
    assert!(!graph.is_subscribed(news, seven));
    assert_eq!(subscribers(&graph, news), [seven]);
    assert_eq!(subscriptions(&graph, seven), [news]);
    assert_eq!(
        (graph.subscriber_count(news), graph.subscription_count(news)),
        (1, 0)
    );
    assert_eq!(
        graph.counts(),
        Counts {
            ids: 2,
            edges: 1,
            dictionary_entries: 1
        }
    );
    assert_eq!(graph.unsubscribe(&id("7"), &id("news")), Ok(true));
    assert_eq!(graph.unsubscribe(&id("7"), &id("news")), Ok(false));
    assert_eq!(graph.counts(), Counts::default());
}

#[test]
fn every_id_is_subscribed_to_itself_without_an_edge() {
    let graph = Graph::memory();
    for me in [id("7"), id("ana")] {
        assert_eq!(graph.subscribe(&me, &me), Ok(false));
        assert_eq!(graph.unsubscribe(&me, &me), Ok(false));
        assert_eq!(graph.counts(), Counts::default());
        let key = graph.hold(&me).unwrap();
        assert!(graph.is_subscribed(key, key));
        assert!(subscribers(&graph, key).is_empty());
        graph.release(key);
    }
}

#[test]
fn an_edge_keeps_the_names_of_both_its_ends() {
    let graph = Graph::memory();
    let ana = graph.hold(&id("ana")).unwrap();
    assert_eq!(graph.subscribe(&id("ana"), &id("ben")), Ok(true));
    graph.release(ana);
    assert_eq!(graph.find(&id("ana")), Some(ana));
    assert_eq!(graph.unsubscribe(&id("ana"), &id("ben")), Ok(true));
    assert_eq!((graph.find(&id("ana")), graph.name(ana)), (None, None));
    assert_eq!(graph.find(&id("ben")), None);
}

#[test]
fn a_held_name_outlives_its_edges() {
    let graph = Graph::memory();
    let ana = graph.hold(&id("ana")).unwrap();
    assert_eq!(graph.subscribe(&id("ana"), &id("ben")), Ok(true));
    assert_eq!(graph.remove(&id("ana")), Ok(1));
    assert_eq!(graph.find(&id("ana")), Some(ana));
    assert_eq!(
        graph.counts(),
        Counts {
            ids: 1,
            edges: 0,
            dictionary_entries: 1
        }
    );
    graph.release(ana);
    assert_eq!(graph.counts(), Counts::default());
}

#[test]
fn looking_up_unknown_ids_interns_nothing() {
    let graph = Graph::memory();
    assert_eq!(graph.find(&id("ana")), None);
    assert_eq!(graph.unsubscribe(&id("ana"), &id("7")), Ok(false));
    assert_eq!(graph.unsubscribe(&id("7"), &id("ana")), Ok(false));
    assert_eq!(graph.remove(&id("ana")), Ok(0));
    assert_eq!(graph.counts(), Counts::default());
}

#[test]
fn removing_a_popular_subject_leaves_nothing() {
    let graph = Graph::memory();
    let star = id("star");
    for fan in 0..20_000 {
        assert_eq!(graph.subscribe(&Id::from(fan), &star), Ok(true));
        if fan % 3 == 0 {
            assert_eq!(graph.subscribe(&star, &Id::from(fan)), Ok(true));
        }
    }
    assert_eq!(graph.subscriber_count(graph.find(&star).unwrap()), 20_000);
    assert_eq!(graph.remove(&star), Ok(20_000 + 6_667));
    assert_eq!(graph.counts(), Counts::default());
}
