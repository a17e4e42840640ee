//! Presence on a node of a cluster: what it tells the other nodes, and what the backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ::presence::{Cause, IdEdge, NodeName};
use parking_lot::Mutex;

use super::presence::{DELAY, MOMENT, SETTINGS, lines, offline, online, presence, snapshot};
use crate::handle::Handle;
use crate::listener::ListenerKind;
use crate::presence::{Presence, PresenceLog};
use crate::settings::PresenceSettings;
use crate::sim::world::{World, id};

const NODE: PresenceSettings = PresenceSettings {
    in_cluster: true,
    ..SETTINGS
};

/// The log of a cluster, as one node sees it.
#[derive(Default)]
struct Log {
    told: Mutex<Vec<IdEdge>>,
    asked: AtomicUsize,
    is_down: AtomicBool,
    /// Entries that were applied.
    applied: AtomicU64,
    /// Places of which the node has said that it has told the backend.
    places: Mutex<Vec<u64>>,
}

struct Way(Arc<Log>, Handle);

impl PresenceLog for Way {
    fn tell_nodes(&self, edges: Vec<IdEdge>) {
        match self.0.is_down.load(Ordering::Relaxed) {
            true => presence_of(&self.1).tell_nodes_again(edges),
            false => self.0.told.lock().extend(edges),
        }
    }

    fn ask_nodes(&self) {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn told_backend(&self, places: Vec<u64>) {
        self.0.places.lock().extend(places);
    }
}

fn presence_of(handle: &Handle) -> &Presence {
    handle.presence().expect("it is kept")
}

const OWN: NodeName = NodeName(1);

impl Log {
    /// The cause of the next entry, of a node.
    fn cause(&self, node: u64) -> Cause {
        Cause {
            node: NodeName(node),
            is_own: NodeName(node) == OWN,
            place: self.applied.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Lets the node read what it has told.
    fn apply(&self, world: &World) -> Vec<(String, bool)> {
        let told = std::mem::take(&mut *self.told.lock());
        presence(world).node_told(self.cause(1), told.clone());
        let state = |edge: IdEdge| (edge.id.to_string(), edge.online);
        told.into_iter().map(state).collect()
    }
}

#[test]
fn nodes_of_a_cluster_tell_each_other_and_again_what_the_log_did_not_take() {
    let mut world = World::with_presence(ListenerKind::Plain, NODE);
    world.subscribe("alice", "rj");
    let log = Arc::new(Log::default());
    let early = world.connect("/stream/early");
    world.pass_with_presence(MOMENT);
    let way = Way(Arc::clone(&log), world.handle.clone());
    presence(&world).tell_nodes_with(Box::new(way));
    world.pass_with_presence(DELAY);
    assert_eq!(log.asked.load(Ordering::Relaxed), 1);
    assert_eq!(log.apply(&world), [("early".to_owned(), true)]);

    let alice = world.connect("/stream/alice?presence=1");
    world.pass_with_presence(MOMENT);
    assert_eq!(log.apply(&world), [("alice".to_owned(), true)]);
    // Another node has rj, then this one too: it is told once.
    let edge = |online| {
        vec![IdEdge {
            id: id("rj"),
            online,
        }]
    };
    presence(&world).node_told(log.cause(2), edge(true));
    world.pass_with_presence(MOMENT);
    assert_eq!(lines(&world, alice), [snapshot(""), online("\"rj\"")]);
    let rj = world.connect("/stream/rj");
    world.pass_with_presence(MOMENT);
    log.apply(&world);
    presence(&world).node_told(log.cause(2), edge(false));
    world.pass_with_presence(MOMENT);
    assert_eq!(lines(&world, alice).len(), 2);

    // The log is away while rj leaves: it is told when it is back.
    log.is_down.store(true, Ordering::Relaxed);
    world.net.borrow_mut().end(rj);
    world.turn();
    world.pass_with_presence(DELAY);
    log.is_down.store(false, Ordering::Relaxed);
    world.pass_with_presence(Duration::from_millis(1_200));
    assert_eq!(log.apply(&world), [("rj".to_owned(), false)]);
    world.pass_with_presence(MOMENT);
    assert_eq!(lines(&world, alice).last(), Some(&offline("\"rj\"")));

    // A node that asks is told all.
    presence(&world).tell_nodes_all();
    world.pass_with_presence(MOMENT);
    let mut told = log.apply(&world);
    told.sort();
    assert_eq!(
        told,
        [("alice".to_owned(), true), ("early".to_owned(), true)]
    );
    for client in [early, alice] {
        world.net.borrow_mut().end(client);
    }
    world.turn();
    world.pass_with_presence(DELAY);
    log.apply(&world);
    world.pass_with_presence(MOMENT);
    world.assert_empty();
    assert_eq!(presence(&world).online().count(), 0);
    // Alice and rj have an edge.
    assert_eq!(world.handle.graph().counts().dictionary_entries, 2);
}

/// What the backend is told: the place of each edge, its id, and whether it is online.
type Told = Arc<Mutex<Vec<(u64, String, bool)>>>;

/// A node whose first delay is over, its log, and what it tells the backend.
fn node() -> (World, Arc<Log>, Told) {
    let mut world = World::with_presence(ListenerKind::Plain, NODE);
    let (log, told) = (Arc::new(Log::default()), Told::default());
    let (way, into) = (Way(Arc::clone(&log), world.handle.clone()), told.clone());
    presence(&world).tell_nodes_with(Box::new(way));
    presence(&world).tell_backend_with(Box::new(move |place, edges| {
        let edges = edges.iter();
        into.lock()
            .extend(edges.map(|edge| (place, edge.id.to_string(), edge.online)));
    }));
    world.pass_with_presence(DELAY);
    (world, log, told)
}

fn edges(names: &[&str], online: bool) -> Vec<IdEdge> {
    let edge = |name: &&str| IdEdge {
        id: id(name),
        online,
    };
    names.iter().map(edge).collect()
}

impl Log {
    /// Lets another node tell of ids.
    fn other(&self, world: &World, node: u64, names: &[&str], online: bool) -> u64 {
        let cause = self.cause(node);
        presence(world).node_told(cause, edges(names, online));
        cause.place
    }

    /// A node is gone, and another one is its heir.
    fn gone(&self, world: &World, node: u64, heir: u64) -> u64 {
        let heir = self.cause(heir);
        presence(world).node_gone(NodeName(node), Some(heir));
        heir.place
    }
}

fn taken(told: &Told) -> Vec<(u64, String, bool)> {
    let mut told = std::mem::take(&mut *told.lock());
    told.sort();
    told
}

#[test]
fn the_backend_is_told_by_the_node_that_caused_an_edge_and_then_by_its_heir() {
    let (mut world, log, told) = node();
    let rj = world.connect("/stream/rj");
    world.pass_with_presence(MOMENT);
    log.apply(&world);
    // What others have is theirs to tell: also that rj is on another node too.
    let first = log.other(&world, 2, &["bob", "carol", "rj"], true);
    let second = log.other(&world, 2, &["dora"], true);
    log.other(&world, 3, &["carol"], true);
    world.pass_with_presence(MOMENT);
    assert_eq!(taken(&told), [(0, "rj".to_owned(), true)]);
    world.net.borrow_mut().end(rj);
    world.turn();
    world.pass_with_presence(DELAY);
    log.apply(&world);
    world.pass_with_presence(MOMENT);
    assert_eq!(taken(&told), [], "rj is on node 2");

    // Node 2 has told of dora when it dies. Carol has left meanwhile.
    presence(&world).node_told_backend(NodeName(2), vec![second]);
    log.other(&world, 3, &["carol"], false);
    let carol_left = log.other(&world, 2, &["carol"], false);
    let end = log.gone(&world, 2, 1);
    world.pass_with_presence(MOMENT);
    let found = taken(&told);
    let expected = [
        (first, "bob".to_owned(), true),
        (carol_left, "carol".to_owned(), false),
    ];
    assert_eq!(found, expected, "rj was told by this node itself");
    // Its ids go after the delay, but for the one that comes back.
    log.other(&world, 3, &["bob"], true);
    world.pass_with_presence(DELAY);
    let expected = ["dora", "rj"].map(|name| (end, name.to_owned(), false));
    assert_eq!(taken(&told), expected);
    // The other nodes are told once of each place.
    presence(&world).told_backend(end);
    world.pass_with_presence(MOMENT);
    assert_eq!(*log.places.lock(), [end]);
}

#[test]
fn an_heir_that_is_gone_has_an_heir_and_no_one_else_tells() {
    let (mut world, log, told) = node();
    let place = log.other(&world, 2, &["bob"], true);
    log.other(&world, 3, &["eve"], true);
    world.pass_with_presence(MOMENT);
    let end = log.gone(&world, 2, 3);
    world.pass_with_presence(MOMENT);
    assert_eq!(taken(&told), [], "node 3 tells");
    log.gone(&world, 3, 1);
    world.pass_with_presence(MOMENT);
    let found = taken(&told);
    assert_eq!(found[0], (place, "bob".to_owned(), true));
    assert_eq!(found.len(), 2, "and eve");
    world.pass_with_presence(DELAY);
    assert_eq!(taken(&told)[0], (end, "bob".to_owned(), false));
}

#[test]
fn ids_that_hide_are_not_told_and_what_is_hidden_or_shown_is() {
    let (mut world, log, told) = node();
    let rj = world.connect("/stream/rj");
    world.pass_with_presence(MOMENT);
    log.apply(&world);
    world.pass_with_presence(MOMENT);
    taken(&told);
    let key = world.handle.graph().find(&id("rj")).unwrap();
    let hide = |world: &World, node, hidden| {
        let cause = log.cause(node);
        presence(world).hidden_told(cause, id("rj"), hidden);
        presence(world).online().set_hidden(key, hidden);
        cause.place
    };
    let place = hide(&world, 1, true);
    world.pass_with_presence(MOMENT);
    assert_eq!(taken(&told), [(place, "rj".to_owned(), false)]);
    // Another node has shown it: that node tells.
    hide(&world, 2, false);
    world.pass_with_presence(MOMENT);
    assert_eq!(taken(&told), []);
    hide(&world, 2, true);
    world.net.borrow_mut().end(rj);
    world.turn();
    world.pass_with_presence(DELAY);
    log.apply(&world);
    world.pass_with_presence(MOMENT);
    assert_eq!(taken(&told), [], "it was offline for everyone");
    presence(&world).online().set_hidden(key, false);
    world.pass_with_presence(MOMENT);
}
