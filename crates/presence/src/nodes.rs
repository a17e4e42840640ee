//! Nodes of a cluster: which ids each of them has.

use std::time::Duration;

use graph::Key;
use hashbrown::HashMap;

use crate::{Cause, Edge, KeySet, Millis};

/// Name of a run of a node: no other run of any node has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub u64);

/// Ids by node. Holds a reference to each key of each node.
#[derive(Debug)]
pub(crate) struct Nodes {
    delay: Duration,
    sets: HashMap<NodeName, KeySet>,
    leaving: Vec<Leaving>,
}

/// A node that has left.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    node: NodeName,
    /// When its ids go.
    when: Millis,
    /// What the edges of its ids are caused by: its heir tells the backend.
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

    /// Notes an edge of a node. Returns whether it is new.
    pub(crate) fn set(&mut self, node: NodeName, edge: Edge) -> bool {
        self.sets
            .entry(node)
            .or_default()
            .set(edge.key, edge.online)
    }

    pub(crate) fn is_on_any(&self, key: Key) -> bool {
        self.sets.values().any(|keys| keys.contains(key))
    }

    /// Goes over the nodes that have a key.
    pub(crate) fn with(&self, key: Key) -> impl Iterator<Item = NodeName> + '_ {
        let sets = self.sets.iter();
        sets.filter(move |(_, keys)| keys.contains(key))
            .map(|(&name, _)| name)
    }

    /// Notes that a node has left. Its heir is that of the nodes whose heir it was, too.
    pub(crate) fn leave(&mut self, node: NodeName, heir: Option<Cause>, now: Millis) {
        for leaving in &mut self.leaving {
            if let Some(cause) = leaving.heir.filter(|cause| cause.node == node) {
                let place = cause.place;
                leaving.heir = heir.map(|heir| Cause { place, ..heir });
            }
        }
        let is_known = self.leaving.iter().any(|leaving| leaving.node == node);
        if self.sets.contains_key(&node) && !is_known {
            let when = Millis(now.0 + self.delay.as_millis() as u64);
            self.leaving.push(Leaving { node, when, heir });
        }
    }

    /// Takes the ids of the nodes that have left, with their references, when the delay is over.
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
