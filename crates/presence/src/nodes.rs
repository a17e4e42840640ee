//! Ids that each node of a cluster has.

use std::time::Duration;

use graph::Key;
use hashbrown::HashMap;

use crate::{Cause, Edge, KeySet, Millis, NodeName};

/// Sets of keys by node. Holds a reference to each key of each node.
#[derive(Debug)]
pub(crate) struct Nodes {
    delay: Duration,
    sets: HashMap<NodeName, KeySet>,
    leaving: Vec<Leaving>,
}

/// A node that has left the cluster.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    node: NodeName,
    /// Time at which its ids are removed.
    when: Millis,
    /// Cause of the edges of its ids: the node that reports them to the backend.
    heir: Option<Cause>,
}

impl Nodes {
    pub(crate) fn new(delay: Duration) -> Self {
        Self {
            delay,
            sets: HashMap::new(),
            leaving: Vec::new(),
        }
    }

    /// Adds or removes an id of a node. Returns whether that changed its set.
    pub(crate) fn set(&mut self, node: NodeName, edge: Edge) -> bool {
        self.sets
            .entry(node)
            .or_default()
            .set(edge.key, edge.online)
    }

    pub(crate) fn is_on_any(&self, key: Key) -> bool {
        self.sets.values().any(|keys| keys.contains(key))
    }

    /// Iterates over the nodes that have a key.
    pub(crate) fn with(&self, key: Key) -> impl Iterator<Item = NodeName> + '_ {
        let sets = self.sets.iter();
        sets.filter(move |(_, keys)| keys.contains(key))
            .map(|(&name, _)| name)
    }

    /// Notes that a node has left. Where it was the heir of another node, `heir` takes its place.
    pub(crate) fn leave(&mut self, node: NodeName, heir: Option<Cause>, now: Millis) {
        for leaving in &mut self.leaving {
            if let Some(cause) = leaving.heir.filter(|cause| cause.node == node) {
                let place = cause.place;
                leaving.heir = heir.map(|heir| Cause { place, ..heir });
            }
        }
        let is_known = self.leaving.iter().any(|leaving| leaving.node == node);
        if self.sets.contains_key(&node) && !is_known {
            let when = now + self.delay;
            self.leaving.push(Leaving { node, when, heir });
        }
    }

    /// Takes the ids of the nodes that left at least the delay ago, with the references to their
    /// keys.
    pub(crate) fn take_gone(&mut self, now: Millis) -> Vec<(Option<Cause>, Key)> {
        let mut gone = Vec::new();
        self.leaving.retain(|leaving| {
            if leaving.when > now {
                return true;
            }
            let keys = self.sets.remove(&leaving.node).unwrap_or_default();
            gone.extend(keys.iter().map(|key| (leaving.heir, key)));
            false
        });
        gone
    }
}
