//! Who is online, and what other threads and nodes tell of it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use graph::{Graph, Id, Key};
use parking_lot::Mutex;
use presence::{Cause, Feed, IdEdge, Millis, NodeName, Online};
use router::Router;

use super::counts::PresenceCounts;
use super::engine::Engine;
use super::snapshot::{self, SnapshotPlace};
use crate::limits::Limits;
use crate::post::Post;
use crate::settings::PresenceSettings;

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
    pub(super) settings: PresenceSettings,
    pub(super) limits: &'static Limits,
    pub(super) online: Arc<Online>,
    pub(super) feed: Arc<Feed>,
    /// Sessions that asked.
    pub(super) asked: AtomicUsize,
    pub(super) news: Mutex<News>,
    pub(super) engine: Mutex<Engine>,
    /// Written by the presence thread.
    pub(super) counts: Mutex<PresenceCounts>,
    /// In a cluster: where edges for the backend go.
    pub(super) backend: OnceLock<Box<BackendSink>>,
}

/// What came from other threads for the next tick.
#[derive(Default)]
pub(super) struct News {
    pub(super) log: Option<Arc<dyn PresenceLog>>,
    /// What nodes have told, the latest of each id: bounded by the ids that there are.
    pub(super) of_nodes: HashMap<(NodeName, Id), (bool, Cause)>,
    /// Ids that were hidden or shown, the latest of each.
    pub(super) hidden: HashMap<Id, (bool, Cause)>,
    /// In the order of the log.
    pub(super) of_backend: Vec<OfBackend>,
    /// Places of which this node has told the backend.
    pub(super) told_backend: Vec<u64>,
    /// Whether nodes must be told all ids that are here.
    pub(super) must_tell_all: bool,
    /// Whether the other nodes must be asked which ids they have.
    pub(super) must_ask: bool,
    /// Ids of which nodes must be told again whether they are here.
    pub(super) again: Vec<Id>,
}

/// What the log says of those who tell the backend.
pub(super) enum OfBackend {
    /// A node has told the edges of these places.
    Told(NodeName, Vec<u64>),
    /// A node is gone, and has an heir.
    Gone(NodeName, Option<Cause>),
}

impl Presence {
    /// Makes the presence of a server whose log has this epoch.
    pub fn new(settings: PresenceSettings, epoch: &str) -> Self {
        Self::with_limits(settings, epoch, &Limits::PRODUCTION)
    }

    pub(crate) fn with_limits(
        settings: PresenceSettings,
        epoch: &str,
        limits: &'static Limits,
    ) -> Self {
        let online = Arc::new(Online::default());
        Self {
            settings,
            limits,
            feed: Arc::new(Feed::new(limits.presence_feed_max, run_name(epoch))),
            asked: AtomicUsize::new(0),
            news: Mutex::default(),
            engine: Mutex::new(Engine::new(&settings, &online)),
            counts: Mutex::default(),
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
        *self.counts.lock()
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

    /// Takes what has changed, and tells what is due. To be called every tenth of a second, from
    /// one thread, with the time since the first call.
    pub(crate) fn tick(&self, router: &Router<Post>, now: Millis) {
        self.engine.lock().tick(self, router, now);
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
        let limits = (limit, self.limits.presence_ids_max);
        let (looked_at, next) = snapshot::walk(graph, &self.online, own, place, limits, &mut ids);
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

/// Returns a name for the numbers of edges that no other run and no other node has: these number
/// edges from the beginning, under the same epoch where that is of a log.
fn run_name(epoch: &str) -> String {
    let random = RandomState::new().hash_one(epoch) as u32;
    format!("{epoch}.{random:08x}")
}
