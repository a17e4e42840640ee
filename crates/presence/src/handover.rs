//! Which node of a cluster reports an edge to the backend: the node that caused it, or the heir of
//! that node if it is gone.
//!
//! Every node knows every edge, in the order of the log. A node reports those that it has caused.
//! It keeps those of other nodes until they have been reported, because it may become the heir.

use std::collections::{BTreeMap, HashMap};

use crate::{IdEdge, NodeName};

/// Most edges that are kept for other nodes: those of half a minute at 2,000 a second, which is
/// longer than a working receiver takes. Beyond it the oldest are forgotten.
pub const HANDOVER_MAX: usize = 65_536;

/// Cause of an edge in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// The node that reports the edge to the backend.
    pub node: NodeName,
    /// Whether that is this node.
    pub is_own: bool,
    /// Position of the cause in the log, which identifies it.
    pub place: u64,
}

/// Edges that other nodes have yet to report to the backend. Owned by the presence thread.
#[derive(Debug, Default)]
pub struct Handover {
    /// By node and position of the cause.
    nodes: HashMap<NodeName, BTreeMap<u64, Vec<IdEdge>>>,
    edges: usize,
}

impl Handover {
    /// Keeps an edge that another node reports.
    pub fn keep(&mut self, cause: Cause, edge: IdEdge) {
        let places = self.nodes.entry(cause.node).or_default();
        places.entry(cause.place).or_default().push(edge);
        self.edges += 1;
        while self.edges > HANDOVER_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let first = |(&node, places): (&NodeName, &BTreeMap<u64, _>)| {
            let (&place, _) = places.first_key_value()?;
            Some((place, node))
        };
        if let Some((place, node)) = self.nodes.iter().filter_map(first).min() {
            self.told(node, &[place]);
        }
    }

    /// Forgets the edges of these positions: `node` has reported them, or has given up.
    pub fn told(&mut self, node: NodeName, places: &[u64]) {
        let Some(kept) = self.nodes.get_mut(&node) else {
            return;
        };
        for place in places {
            self.edges -= kept.remove(place).map_or(0, |edges| edges.len());
        }
        if kept.is_empty() {
            self.nodes.remove(&node);
        }
    }

    /// Hands the edges that `node`, which is gone, has not reported over to `heir`. If this node is
    /// the heir, returns them by position, in ascending order.
    pub fn gone(&mut self, node: NodeName, heir: Option<Cause>) -> Vec<(u64, Vec<IdEdge>)> {
        let Some(places) = self.nodes.remove(&node) else {
            return Vec::new();
        };
        match heir {
            Some(heir) if !heir.is_own => {
                self.nodes.entry(heir.node).or_default().extend(places);
                Vec::new()
            }
            _ => {
                self.edges -= places.values().map(Vec::len).sum::<usize>();
                let is_mine = heir.is_some();
                places.into_iter().filter(|_| is_mine).collect()
            }
        }
    }

    /// Returns the number of edges that are kept.
    pub const fn edges(&self) -> usize {
        self.edges
    }
}

#[cfg(test)]
mod tests {
    use graph::Id;

    use super::*;

    fn edge(number: u32, online: bool) -> IdEdge {
        let id = Id::from(number);
        IdEdge { id, online }
    }

    const fn cause(node: u64, place: u64) -> Cause {
        Cause {
            node: NodeName(node),
            is_own: node == 1,
            place,
        }
    }

    #[test]
    fn edges_of_a_gone_node_go_to_its_heir_and_then_to_the_heir_of_the_heir() {
        let mut handover = Handover::default();
        for (node, place) in [(2, 10), (3, 11), (2, 12), (2, 13)] {
            handover.keep(cause(node, place), edge(place as u32, true));
        }
        handover.keep(cause(2, 13), edge(99, false));
        handover.told(NodeName(2), &[12, 11, 77]);
        assert_eq!(handover.edges(), 4, "a position of another node is ignored");
        // The heir is another node, which reports one of them and then is gone, too.
        assert_eq!(handover.gone(NodeName(2), Some(cause(3, 14))), []);
        handover.told(NodeName(3), &[10]);
        let mine = handover.gone(NodeName(3), Some(cause(1, 15)));
        let expected = vec![
            (11, vec![edge(11, true)]),
            (13, vec![edge(13, true), edge(99, false)]),
        ];
        assert_eq!((mine, handover.edges()), (expected, 0));
        assert_eq!(handover.gone(NodeName(3), Some(cause(1, 16))), []);
    }

    #[test]
    fn without_an_heir_nothing_is_kept() {
        let mut handover = Handover::default();
        handover.keep(cause(2, 1), edge(1, true));
        assert_eq!(handover.gone(NodeName(2), None), []);
        assert_eq!(handover.edges(), 0);
    }

    #[test]
    fn the_oldest_edges_of_all_nodes_are_forgotten() {
        let mut handover = Handover::default();
        for place in 0..HANDOVER_MAX as u64 + 3 {
            handover.keep(cause(2 + place % 2, place), edge(1, true));
        }
        assert_eq!(handover.edges(), HANDOVER_MAX);
        let mut left = Vec::new();
        for node in [2, 3] {
            left.extend(handover.gone(NodeName(node), Some(cause(1, 0))));
        }
        assert_eq!(left.iter().map(|(place, _)| *place).min(), Some(3));
        assert_eq!(left.len(), HANDOVER_MAX);
    }
}
