//! Presence: who is online, as clients are told.
//!
//! Edges come from the router's moves, ten times a second, through the `presence` crate, which
//! decides what is told and when. They go by mail to the workers of the online subscribers, which
//! pass over the sessions that did not ask. A session that is told nothing for a while, because its
//! socket is full or its worker's mailbox was, gets a new snapshot: a snapshot replaces all edges
//! before it. Must never make an edge an event: it has no number, and is in no history and receipt.

/// From moves to mail: the presence thread's work.
mod engine;
/// What workers do with edges.
mod stage;
/// Snapshots: which of a session's subscriptions are online.
mod snapshot;
/// What the presence thread counts.
mod counts;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use graph::{Graph, Id, Key};
use parking_lot::Mutex;
use presence::{Cause, Feed, IdEdge, Millis, NodeName, Online};
use reactor::SlotKey;
use wire::event::Subject;

use crate::limits::PRESENCE_FEED_MAX;
use crate::mail::Handle;
use counts::LiveCounts;
pub use counts::PresenceCounts;
use engine::Engine;
pub use snapshot::SnapshotPlace;
pub(crate) use snapshot::for_poll;
pub(crate) use stage::PresenceStage;

/// Settings of presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceSettings {
    /// Time that an id stays online after its last session.
    pub delay: Duration,
    /// Notices a second that edges may cost, all sessions of their subscribers counted.
    pub rate: u64,
    /// Subscribers of an id beyond which they are not told.
    pub subscribers_max: usize,
    /// Whether the server is a node of a cluster: an id is online when it is on any node.
    pub in_cluster: bool,
}

/// Way from a node to the nodes of its cluster. Must not block.
pub trait PresenceLog: Send + Sync {
    /// Tells all nodes, this one too, which ids have come to this node or have left it. What they
    /// will not learn goes to [`Presence::tell_nodes_again`].
    fn tell_nodes(&self, edges: Vec<IdEdge>);

    /// Asks all nodes to tell which ids they have. If they will not learn it,
    /// [`Presence::ask_nodes_again`] must be called.
    fn ask_nodes(&self);

    /// Tells all nodes that this one has told the backend of the edges of these places, so that
    /// they need not be its heirs in them. If they do not learn it, the backend may be told twice.
    fn told_backend(&self, places: Vec<u64>);
}

/// Takes the edges of a place of the log that this node of a cluster tells the backend. Must not
/// block. When the backend has them, [`Presence::told_backend`] is to be called with the place.
pub type BackendSink = dyn Fn(u64, &[IdEdge]) + Send + Sync;

/// Who is online. Lives as long as the server.
pub struct Presence {
    settings: PresenceSettings,
    online: Arc<Online>,
    feed: Arc<Feed>,
    /// Sessions that asked.
    asked: AtomicUsize,
    news: Mutex<News>,
    engine: Mutex<Engine>,
    counts: LiveCounts,
    /// In a cluster: where edges for the backend go.
    backend: OnceLock<Box<BackendSink>>,
}

/// What came from other threads for the next tick.
#[derive(Default)]
struct News {
    log: Option<Arc<dyn PresenceLog>>,
    /// What nodes have told, the latest of each id: bounded by the ids that there are.
    of_nodes: HashMap<(NodeName, Id), (bool, Cause)>,
    /// Ids that were hidden or shown, the latest of each.
    hidden: HashMap<Id, (bool, Cause)>,
    /// In the order of the log.
    of_backend: Vec<OfBackend>,
    /// Places of which this node has told the backend.
    told_backend: Vec<u64>,
    /// Whether nodes must be told all ids that are here.
    must_tell_all: bool,
    /// Whether the other nodes must be asked which ids they have.
    must_ask: bool,
    /// Ids of which nodes must be told again whether they are here.
    again: Vec<Id>,
}

/// What the log says of those who tell the backend.
enum OfBackend {
    /// A node has told the edges of these places.
    Told(NodeName, Vec<u64>),
    /// A node is gone, and has an heir.
    Gone(NodeName, Option<Cause>),
}

/// An edge with all that a worker needs.
#[derive(Debug, Clone)]
pub(crate) struct NamedEdge {
    pub(crate) key: Key,
    pub(crate) id: Id,
    pub(crate) online: bool,
}

/// Edges for the sessions of a worker.
#[derive(Debug)]
pub(crate) struct EdgeParcel {
    pub(crate) edges: Arc<[NamedEdge]>,
    /// In the order of the sessions' slots, and of the edges for each of them.
    pub(crate) recipients: Vec<(SlotKey, u32)>,
}

impl EdgeParcel {
    /// Returns what it weighs in a mailbox.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + self.recipients.len() * size_of::<(SlotKey, u32)>()
            + self.edges.len() * size_of::<NamedEdge>()
    }
}

/// Sessions of a worker that are sent a new snapshot if they asked: the subscriptions of their ids
/// have changed.
#[derive(Debug)]
pub(crate) struct ChangedSessions(pub(crate) Vec<SlotKey>);

impl ChangedSessions {
    /// Returns what they weigh in a mailbox.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>() + self.0.len() * size_of::<SlotKey>()
    }
}

/// Edges for the sessions of an external worker.
#[derive(Debug)]
pub struct ProcessEdges(pub(crate) EdgeParcel);

/// An edge for a session of an external worker.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEdge<'a> {
    /// The session. That it has not asked is possible, as only its worker knows.
    pub session: SlotKey,
    /// Number of the edge: the same for all sessions.
    pub number: u32,
    /// The id that has come or gone.
    pub key: Key,
    /// The same.
    pub id: &'a Id,
    /// Whether it is online now.
    pub online: bool,
}

impl ProcessEdges {
    /// Goes over the edges, those of a session one after the other.
    pub fn iter(&self) -> impl Iterator<Item = ProcessEdge<'_>> {
        let edges = &self.0.edges;
        self.0.recipients.iter().map(|&(session, number)| {
            let edge = &edges[number as usize];
            ProcessEdge {
                session,
                number,
                key: edge.key,
                id: &edge.id,
                online: edge.online,
            }
        })
    }
}

impl Presence {
    /// Makes the presence of a server whose log has this epoch.
    pub fn new(settings: PresenceSettings, epoch: &str) -> Self {
        let online = Arc::new(Online::default());
        Self {
            settings,
            feed: Arc::new(Feed::new(PRESENCE_FEED_MAX, run_name(epoch))),
            asked: AtomicUsize::new(0),
            news: Mutex::default(),
            engine: Mutex::new(Engine::new(&settings, &online)),
            counts: LiveCounts::default(),
            backend: OnceLock::new(),
            online,
        }
    }

    /// Returns who is online.
    pub const fn online(&self) -> &Arc<Online> {
        &self.online
    }

    /// Returns the latest edges, for backends.
    pub const fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Returns what the presence thread has counted.
    pub fn counts(&self) -> PresenceCounts {
        self.counts.read()
    }

    /// Returns the settings.
    pub const fn settings(&self) -> &PresenceSettings {
        &self.settings
    }

    /// Returns whether it is known who is online: the first delay of the server is over.
    pub fn is_settled(&self) -> bool {
        self.online.is_settled()
    }

    /// Returns the nodes of the cluster on which an id is, or was less than the delay ago; none
    /// where there is no cluster.
    pub fn nodes_of(&self, key: Key) -> Vec<NodeName> {
        self.engine.lock().nodes_of(key)
    }

    /// Counts a session that asks, before it logs in.
    pub fn begin_session(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a session that has asked and ends.
    pub fn end_session(&self) {
        self.asked.fetch_sub(1, Ordering::SeqCst);
    }

    /// Looks at the next `limit` subscriptions of a session that is logged in as `own`, from
    /// `place` on, and returns those of which it is to be told that they are online, a piece of a
    /// snapshot at most. Also returns the number of subscriptions looked at, and the place to go on
    /// from; `None` at the end.
    pub fn snapshot(
        &self,
        graph: &Graph,
        own: &[Key],
        place: SnapshotPlace,
        limit: usize,
    ) -> (Vec<Id>, usize, Option<SnapshotPlace>) {
        let mut ids = Vec::new();
        let (looked_at, next) = snapshot::walk(graph, &self.online, own, place, limit, &mut ids);
        (ids, looked_at, next)
    }

    /// Sets the way to the other nodes, which are asked at once. Only the first call counts.
    pub fn tell_nodes_with(&self, log: Box<dyn PresenceLog>) {
        let mut news = self.news.lock();
        if news.log.is_none() {
            news.log = Some(log.into());
            news.must_ask = true;
        }
    }

    /// Takes what could not be told: nodes are told later how it is then.
    pub fn tell_nodes_again(&self, edges: Vec<IdEdge>) {
        let ids = edges.into_iter().map(|edge| edge.id);
        self.news.lock().again.extend(ids);
    }

    /// Takes that nodes could not be asked: they are asked later.
    pub fn ask_nodes_again(&self) {
        self.news.lock().must_ask = true;
    }

    /// Takes what a node has told all nodes, in the order of the log.
    pub fn node_told(&self, cause: Cause, edges: Vec<IdEdge>) {
        let edges = edges.into_iter();
        let edges = edges.map(|edge| ((cause.node, edge.id), (edge.online, cause)));
        self.news.lock().of_nodes.extend(edges);
    }

    /// Takes that an id of a node of a cluster hides from now on, or is shown again.
    pub fn hidden_told(&self, cause: Cause, id: Id, is_hidden: bool) {
        if self.backend.get().is_some() {
            self.news.lock().hidden.insert(id, (is_hidden, cause));
        }
    }

    /// Takes that a node has left, in the order of the log. `heir` is the node that tells the
    /// backend in its place, at the place of its end.
    pub fn node_gone(&self, node: NodeName, heir: Option<Cause>) {
        let gone = OfBackend::Gone(node, heir);
        self.news.lock().of_backend.push(gone);
    }

    /// Lets a node of a cluster tell the backend its part of the edges from now on. Only the first
    /// call counts.
    pub fn tell_backend_with(&self, backend: Box<BackendSink>) {
        let _ = self.backend.set(backend);
    }

    /// Takes that the backend has the edges of a place that this node told, or that they were given
    /// up.
    pub fn told_backend(&self, place: u64) {
        self.news.lock().told_backend.push(place);
    }

    /// Takes that a node has told the backend of the edges of these places, in the order of the
    /// log.
    pub fn node_told_backend(&self, node: NodeName, places: Vec<u64>) {
        if self.backend.get().is_some() {
            let told = OfBackend::Told(node, places);
            self.news.lock().of_backend.push(told);
        }
    }

    /// Tells all nodes again which ids are on this one: a node has joined that does not know.
    pub fn tell_nodes_all(&self) {
        self.news.lock().must_tell_all = true;
    }
}

impl Handle {
    /// Returns who is online; `None` if the server does not keep it.
    pub fn presence(&self) -> Option<&Presence> {
        self.presence.as_deref()
    }

    /// Takes what has changed, and tells what is due. To be called every tenth of a second, from
    /// one thread, with the time since the first call.
    pub fn tick_presence(&self, now: Millis) {
        if let Some(presence) = &self.presence {
            presence.engine.lock().tick(presence, &self.router, now);
        }
    }
}

/// Returns a name for the numbers of edges that no other run and no other node has: these number
/// edges from the beginning, under the same epoch where that is of a log.
fn run_name(epoch: &str) -> String {
    let random = RandomState::new().hash_one(epoch) as u32;
    format!("{epoch}.{random:08x}")
}

/// Returns an id as notices have it.
pub(crate) fn subject(id: &Id) -> Subject<'_> {
    match id {
        Id::Integer(number) => Subject::Integer(*number),
        Id::Text(text) => Subject::Text(text),
    }
}
