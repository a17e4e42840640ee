//! Tracker: from sessions that begin and end to edges, on a single server or in a cluster.

use std::sync::Arc;
use std::time::Duration;

use graph::Key;

use crate::nodes::Nodes;
use crate::{Announcer, Cause, Departures, Due, Edge, Millis, NodeName, Online};

/// Receiver of edges. Owned by the presence thread.
pub trait Outlet {
    /// Releases a reference to a key, which may then be given to another id.
    fn release(&mut self, key: Key);

    /// Announces an edge to the subscribers of its id, or to no one if `is_bulk`, because then all
    /// sessions get new snapshots later. Returns the number of messages. The key is valid during
    /// the call.
    fn tell(&mut self, edge: Edge, is_bulk: bool) -> u64;

    /// In a cluster, tells all nodes including this one that an id has come to this node or has
    /// left it. The key is valid during the call.
    fn tell_nodes(&mut self, edge: Edge);

    /// In a cluster, receives an edge of the whole cluster before it is announced. All nodes that
    /// have read the same log call this with the same edges and causes. The key is valid during the
    /// call.
    fn caused(&mut self, cause: Cause, edge: Edge);
}

/// State of presence: debounces, coalesces and paces edges. Owned by the presence thread.
#[derive(Debug)]
pub struct Tracker {
    online: Arc<Online>,
    departures: Departures,
    announcer: Announcer,
    /// Ids of all nodes, in a cluster.
    nodes: Option<Nodes>,
    /// Working memory.
    gone: Vec<Edge>,
}

impl Tracker {
    /// Returns a tracker whose ids stay online for `delay` after their last session, and which
    /// announces edges at `rate` messages a second at most.
    pub fn new(online: Arc<Online>, delay: Duration, rate: u64) -> Self {
        Self {
            online,
            departures: Departures::new(delay),
            announcer: Announcer::new(rate, delay),
            nodes: None,
            gone: Vec::new(),
        }
    }

    /// Returns this as the tracker of a node of a cluster, where an id is online if it is on any
    /// node by [`Self::node_told`]. The ids of a node that has left stay online for `delay`.
    #[must_use]
    pub fn in_cluster(mut self, delay: Duration) -> Self {
        self.nodes = Some(Nodes::new(delay));
        self
    }

    /// Handles that an id got its first session on this node, or lost its last one. In the second
    /// case the caller passes a reference to the key.
    pub fn moved(&mut self, key: Key, is_here: bool, outlet: &mut impl Outlet) {
        let release = |key| outlet.release(key);
        let edge = match is_here {
            true => self.departures.came(key, release),
            false => self.departures.left(key, release),
        };
        if let Some(edge) = edge {
            self.local(edge, outlet);
        }
    }

    /// Handles an edge of this node. An offline edge owns a reference to its key.
    fn local(&mut self, edge: Edge, outlet: &mut impl Outlet) {
        if self.nodes.is_none() {
            return self.change(edge, outlet);
        }
        outlet.tell_nodes(edge);
        if !edge.online {
            outlet.release(edge.key);
        }
    }

    /// Handles an edge of the server or of the whole cluster. An offline edge owns a reference to
    /// its key.
    fn change(&mut self, edge: Edge, outlet: &mut impl Outlet) {
        self.online.set_online(edge.key, edge.online);
        self.announcer
            .change(&self.online, edge, |key| outlet.release(key));
        if self.announcer.is_bulk() {
            self.tell(outlet);
        }
    }

    /// Handles an edge of a node of the cluster, which `cause` names. The edge owns a reference to
    /// its key.
    pub fn node_told(&mut self, cause: Cause, edge: Edge, outlet: &mut impl Outlet) {
        let Some(nodes) = &mut self.nodes else {
            return outlet.release(edge.key);
        };
        if !nodes.set(cause.node, edge) {
            return outlet.release(edge.key);
        }
        if edge.online {
            // The set of the node keeps the reference.
            if !self.online.is_online(edge.key) {
                outlet.caused(cause, edge);
                self.change(edge, outlet);
            }
            return;
        }
        let is_elsewhere = nodes.is_on_any(edge.key);
        outlet.release(edge.key);
        self.left_node(edge.key, is_elsewhere, Some(cause), outlet);
    }

    /// Handles that a node no longer has an id. Takes over the reference of the node's set.
    fn left_node(
        &mut self,
        key: Key,
        is_elsewhere: bool,
        cause: Option<Cause>,
        outlet: &mut impl Outlet,
    ) {
        if is_elsewhere {
            return outlet.release(key);
        }
        let edge = Edge { key, online: false };
        if let Some(cause) = cause {
            outlet.caused(cause, edge);
        }
        self.change(edge, outlet);
    }

    /// Handles that a node has left the cluster. Its ids stay online for the delay. Their edges
    /// after it are caused by the end of the node, and reported by its heir.
    pub fn node_gone(&mut self, node: NodeName, heir: Option<Cause>) {
        if let Some(nodes) = &mut self.nodes {
            nodes.leave(node, heir, self.announcer.now());
        }
    }

    /// Calls `each` with every id of this node, for a node that has joined.
    pub fn each_here(&self, each: impl FnMut(Key)) {
        self.departures.here().iter().for_each(each);
    }

    /// Returns whether an id has a session on this node, or had one less than the delay ago.
    pub fn is_here(&self, key: Key) -> bool {
        self.departures.here().contains(key)
    }

    /// Advances the time to `now`, and announces the edges that are due. If it returns
    /// [`Due::Snapshots`], every session needs a new snapshot.
    pub fn advance(&mut self, now: Millis, outlet: &mut impl Outlet) -> Due {
        let mut gone = std::mem::take(&mut self.gone);
        self.departures.advance(now, |edge| gone.push(edge));
        for edge in gone.drain(..) {
            self.local(edge, outlet);
        }
        let of_nodes = self.nodes.as_mut().map(|nodes| nodes.take_gone(now));
        for (cause, key) in of_nodes.unwrap_or_default() {
            let is_elsewhere = (self.nodes.as_ref()).is_some_and(|nodes| nodes.is_on_any(key));
            self.left_node(key, is_elsewhere, cause, outlet);
        }
        gone.shrink_to(crate::QUEUE_MAX);
        self.gone = gone;
        for key in self.online.take_changed() {
            self.announcer.look_at(&self.online, key);
        }
        let due = self.announcer.advance(now);
        self.tell(outlet);
        due
    }

    fn tell(&mut self, outlet: &mut impl Outlet) {
        while let Some(edge) = self.announcer.next(&self.online, |key| outlet.release(key)) {
            let messages = outlet.tell(edge, self.announcer.is_bulk());
            self.announcer
                .dealt_with(edge, messages, |key| outlet.release(key));
        }
    }

    /// Returns whether the first bulk period is over, so that it is known who is online.
    pub const fn is_settled(&self) -> bool {
        self.announcer.is_settled()
    }

    /// Returns the nodes of the cluster that have an id.
    pub fn nodes_of(&self, key: Key) -> Vec<NodeName> {
        let nodes = self.nodes.iter();
        nodes.flat_map(|nodes| nodes.with(key)).collect()
    }

    /// Returns whether a bulk period is under way: edges are applied and not announced.
    pub const fn is_bulk(&self) -> bool {
        self.announcer.is_bulk()
    }

    /// Returns the number of edges that were undone while they waited, and so were not announced.
    pub const fn undone(&self) -> u64 {
        self.announcer.undone()
    }

    /// Returns the number of edges that wait to be announced.
    pub fn waiting(&self) -> usize {
        self.announcer.waiting()
    }

    /// Returns the number of ids within their delay.
    pub fn leaving(&self) -> usize {
        self.departures.leaving()
    }
}
