//! Random operations, compared with a simple model.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Counts, Graph, id, subscribers, subscriptions};
use crate::key::Key;

/// Ids used: integers that are their own keys, on one page and on others, larger integers, texts.
const IDS: [&str; 12] = [
    "0",
    "1",
    "63",
    "64",
    "70000",
    "2147483647",
    "2147483648",
    "9007199254740991",
    "ana",
    "ben",
    "01",
    "名前",
];

/// How many of them, at the beginning, are their own keys.
const OWN: usize = 6;

#[derive(Debug, Clone)]
enum Operation {
    Subscribe(usize, usize),
    Unsubscribe(usize, usize),
    Remove(usize),
    Hold(usize),
    /// Releases one of the held ids, selected modulo their number.
    Release(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let who = 0..IDS.len();
    prop_oneof![
        8 => (who.clone(), who.clone()).prop_map(|(a, b)| Operation::Subscribe(a, b)),
        5 => (who.clone(), who.clone()).prop_map(|(a, b)| Operation::Unsubscribe(a, b)),
        1 => who.clone().prop_map(Operation::Remove),
        2 => who.prop_map(Operation::Hold),
        2 => any::<usize>().prop_map(Operation::Release),
    ]
}

/// Model of the graph.
#[derive(Default)]
struct Model {
    edges: BTreeSet<(usize, usize)>,
    held: Vec<(usize, Key)>,
}

impl Model {
    /// Applies `operation` to both and compares the results.
    fn apply(&mut self, graph: &Graph, operation: &Operation) {
        match *operation {
            Operation::Subscribe(a, b) => {
                let new = a != b && self.edges.insert((a, b));
                assert_eq!(graph.subscribe(&id(IDS[a]), &id(IDS[b])), Ok(new));
            }
            Operation::Unsubscribe(a, b) => {
                let there = self.edges.remove(&(a, b));
                assert_eq!(graph.unsubscribe(&id(IDS[a]), &id(IDS[b])), Ok(there));
            }
            Operation::Remove(who) => {
                let before = self.edges.len();
                self.edges.retain(|&(a, b)| a != who && b != who);
                assert_eq!(graph.remove(&id(IDS[who])), Ok(before - self.edges.len()));
            }
            Operation::Hold(who) => {
                let key = graph.hold(&id(IDS[who])).unwrap();
                self.held.push((who, key));
            }
            Operation::Release(at) => {
                if !self.held.is_empty() {
                    let (_, key) = self.held.swap_remove(at % self.held.len());
                    graph.release(key);
                }
            }
        }
    }

    fn has_edges(&self, who: usize) -> bool {
        self.edges.iter().any(|&(a, b)| a == who || b == who)
    }

    /// Compares everything that can be read.
    fn compare(&self, graph: &Graph) {
        let mut expected = Counts {
            edges: self.edges.len(),
            ..Counts::default()
        };
        for (who, text) in IDS.iter().enumerate() {
            let own = who < OWN;
            let known = self.has_edges(who) || self.held.iter().any(|&(held, _)| held == who);
            let interned = usize::from(known && !own);
            expected.dictionary_entries += interned;
            expected.ids += interned + usize::from(own && self.has_edges(who));
            let found = graph.find(&id(text));
            assert_eq!(found.is_some(), own || known, "{text}");
            if let Some(key) = found {
                assert_eq!(graph.name(key), Some(id(text)));
                self.compare_lists(graph, who, key);
            }
        }
        for &(who, key) in &self.held {
            assert_eq!(graph.find(&id(IDS[who])), Some(key), "a held key changed");
        }
        assert_eq!(graph.counts(), expected);
    }

    fn compare_lists(&self, graph: &Graph, who: usize, key: Key) {
        let followers = self
            .edges
            .iter()
            .filter(|edge| edge.1 == who)
            .map(|edge| edge.0);
        assert_eq!(
            subscribers(graph, key),
            keys(graph, followers),
            "of {}",
            IDS[who]
        );
        assert_eq!(graph.subscriber_count(key), subscribers(graph, key).len());
        let followed = self
            .edges
            .iter()
            .filter(|edge| edge.0 == who)
            .map(|edge| edge.1);
        assert_eq!(
            subscriptions(graph, key),
            keys(graph, followed),
            "of {}",
            IDS[who]
        );
        assert_eq!(
            graph.subscription_count(key),
            subscriptions(graph, key).len()
        );
        for (other, text) in IDS.iter().enumerate() {
            let edge = who == other || self.edges.contains(&(who, other));
            if let Some(other_key) = graph.find(&id(text)) {
                assert_eq!(graph.is_subscribed(key, other_key), edge);
            }
        }
    }
}

/// Returns the keys of some of the ids, ascending.
fn keys(graph: &Graph, ids: impl Iterator<Item = usize>) -> Vec<Key> {
    let mut keys: Vec<_> = ids.map(|who| graph.find(&id(IDS[who])).unwrap()).collect();
    keys.sort_unstable();
    keys
}

proptest! {
    #[test]
    fn the_graph_is_a_set_of_edges_and_drops_ids_without_references(
        operations in prop::collection::vec(operation(), 1..120),
    ) {
        let graph = Graph::memory();
        let mut model = Model::default();
        for operation in &operations {
            model.apply(&graph, operation);
            model.compare(&graph);
        }
        for (_, key) in std::mem::take(&mut model.held) {
            graph.release(key);
        }
        for who in 0..IDS.len() {
            model.apply(&graph, &Operation::Remove(who));
        }
        prop_assert_eq!(graph.counts(), Counts::default());
        prop_assert!(graph.memory.adjacency.is_empty(), "pages without an edge");
    }
}
