//! From moves to mail: what the presence thread does every tenth of a second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use graph::{Id, Key};
use presence::{Cause, Due, Edge, Handover, IdEdge, Millis, NodeName, Online, Outlet, Tracker};
use router::{Move, Router, SessionRef};

use super::edges::{ChangedSessions, EdgeParcel, NamedEdge};
use super::keeper::{OfBackend, Presence};
use crate::limits::{PRESENCE_RETRY, PRESENCE_ROUND_INTERVAL};
use crate::mail::Mail;
use crate::post::Post;
use crate::settings::PresenceSettings;

/// What the presence thread owns.
pub(super) struct Engine {
    tracker: Tracker,
    /// Ids of which all nodes are still to be told whether they are here.
    untold: VecDeque<Id>,
    /// When what could not be told is told again.
    retry_at: Millis,
    /// What other nodes tell the backend.
    handover: Handover,
    /// Working memory.
    moves: Vec<Move>,
    changed: Vec<SessionRef>,
    batch: Batch,
    /// When all sessions may be sent a new snapshot because subscriptions have changed, and
    /// whether they must be.
    round_from: Millis,
    must_go_round: bool,
}

/// Edges of a tick. All but `to_nodes` is empty between two.
#[derive(Default)]
struct Batch {
    edges: Vec<NamedEdge>,
    /// With the index of the edge.
    recipients: Vec<(SessionRef, u32)>,
    for_feed: Vec<IdEdge>,
    to_nodes: Vec<IdEdge>,
    /// With the places of their causes.
    for_backend: Vec<(u64, IdEdge)>,
    /// Working memory.
    keys: Vec<Key>,
    sessions: Vec<SessionRef>,
}

/// Way of the edges of a tick: to the feed, the workers and the nodes.
struct Way<'a> {
    presence: &'a Presence,
    router: &'a Router<Post>,
    batch: &'a mut Batch,
    handover: &'a mut Handover,
}

impl Engine {
    pub(super) fn new(settings: &PresenceSettings, online: &Arc<Online>) -> Self {
        let tracker = Tracker::new(Arc::clone(online), settings.delay, settings.rate);
        Self {
            tracker: match settings.in_cluster {
                true => tracker.in_cluster(settings.delay),
                false => tracker,
            },
            untold: VecDeque::new(),
            retry_at: Millis(0),
            handover: Handover::default(),
            moves: Vec::new(),
            changed: Vec::new(),
            batch: Batch::default(),
            round_from: Millis(0),
            must_go_round: false,
        }
    }

    /// Returns the nodes of the cluster that have an id.
    pub(super) fn nodes_of(&self, key: Key) -> Vec<NodeName> {
        self.tracker.nodes_of(key)
    }

    /// Takes what has changed, and tells what is due at a time.
    pub(super) fn tick(&mut self, presence: &Presence, router: &Router<Post>, now: Millis) {
        let way = &mut Way {
            presence,
            router,
            batch: &mut self.batch,
            handover: &mut self.handover,
        };
        router.take_moves(&mut self.moves);
        for moved in self.moves.drain(..) {
            if moved.is_held {
                self.tracker.moved(moved.key, false, way);
            }
            if moved.online {
                self.tracker.moved(moved.key, true, way);
            }
        }
        self.moves
            .shrink_to(presence.limits.presence_recipients_max);
        let (of_nodes, hidden, of_backend) = {
            let mut news = presence.news.lock();
            let of_nodes = std::mem::take(&mut news.of_nodes);
            let hidden = std::mem::take(&mut news.hidden);
            (of_nodes, hidden, std::mem::take(&mut news.of_backend))
        };
        let mut of_nodes: Vec<_> = of_nodes.into_iter().collect();
        // In the order of the log, so that all nodes find the same causes.
        of_nodes.sort_unstable_by_key(|(_, (_, cause))| cause.place);
        for ((_, id), (online, cause)) in of_nodes {
            // The reference goes with the edge. An id that is not known is on no node.
            let key = match online {
                true => router.graph().hold(&id).ok(),
                false => router.graph().hold_known(&id),
            };
            if let Some(key) = key {
                self.tracker.node_told(cause, Edge { key, online }, way);
            }
        }
        for (id, (is_hidden, cause)) in hidden {
            way.hidden(cause, &id, is_hidden);
        }
        for news in of_backend {
            match news {
                OfBackend::Told(node, places) => way.handover.told(node, &places),
                OfBackend::Gone(node, heir) => {
                    self.tracker.node_gone(node, heir);
                    way.inherit(node, heir);
                }
            }
        }
        let due = self.tracker.advance(now, way);
        way.flush();
        way.tell_backend();
        let mut counts = presence.counts.lock();
        counts.undone = self.tracker.undone();
        counts.waiting = self.tracker.waiting() as u64;
        counts.leaving = self.tracker.leaving() as u64;
        counts.handover = self.handover.edges() as u64;
        drop(counts);
        if self.tracker.is_settled() {
            presence.online.settle();
        }
        if due == Due::Snapshots {
            for mailbox in &router.mailboxes().mailboxes {
                mailbox.insert(Mail::PresenceSnapshots);
            }
        }
        self.tell_changed(presence, router, now);
        self.tell_nodes(presence, router, now);
    }

    /// Has sessions that asked sent a new snapshot if the subscriptions of their ids have changed:
    /// a subject that they follow now may be online for long, and one that they left is of no
    /// concern any more.
    fn tell_changed(&mut self, presence: &Presence, router: &Router<Post>, now: Millis) {
        self.changed.clear();
        self.must_go_round |= !router.take_changed_sessions(&mut self.changed);
        // Before it is known who is online there is nothing to be told; then all get a snapshot.
        if presence.asked.load(Ordering::SeqCst) == 0 || !presence.is_settled() {
            self.must_go_round = false;
            return;
        }
        let mailboxes = router.mailboxes();
        if self.must_go_round && now >= self.round_from {
            self.must_go_round = false;
            self.round_from = now + PRESENCE_ROUND_INTERVAL;
            for mailbox in &mailboxes.mailboxes {
                mailbox.insert(Mail::PresenceSnapshots);
            }
        }
        self.changed
            .sort_unstable_by_key(|session| session.to_bits());
        self.changed.dedup();
        for group in self.changed.chunk_by(|a, b| a.worker() == b.worker()) {
            let mailbox = mailboxes.mailbox(group[0].worker());
            let changed = ChangedSessions(group.iter().map(|session| session.key()).collect());
            let weight = changed.weight();
            match mailbox.post(Mail::PresenceChanged(changed), weight) {
                Ok(()) => mailbox.ring(),
                Err(_) => self.must_go_round = true,
            }
        }
        self.changed
            .shrink_to(presence.limits.presence_recipients_max);
    }

    /// Tells the nodes of a cluster what has changed here, and in slices what they do not know.
    fn tell_nodes(&mut self, presence: &Presence, router: &Router<Post>, now: Millis) {
        if !presence.settings.in_cluster {
            return;
        }
        let mut edges = std::mem::take(&mut self.batch.to_nodes);
        let (log, must_ask, told) = {
            let mut news = presence.news.lock();
            let Some(log) = news.log.clone() else {
                // Before the node can append: all of it is told later.
                news.must_tell_all = true;
                return;
            };
            if std::mem::take(&mut news.must_tell_all) {
                let graph = router.graph();
                self.untold.clear();
                self.tracker
                    .each_here(|key| self.untold.extend(graph.name(key)));
            }
            let retries = now >= self.retry_at;
            if retries && (news.must_ask || !news.again.is_empty()) {
                self.retry_at = now + PRESENCE_RETRY;
                self.untold.extend(news.again.drain(..));
            }
            let must_ask = retries && std::mem::take(&mut news.must_ask);
            (log, must_ask, std::mem::take(&mut news.told_backend))
        };
        if must_ask {
            log.ask_nodes();
        }
        if !told.is_empty() {
            log.told_backend(told);
        }
        while edges.len() < presence.limits.presence_node_edges_max
            && let Some(id) = self.untold.pop_front()
        {
            let key = router.graph().find(&id);
            let online = key.is_some_and(|key| self.tracker.is_here(key));
            edges.push(IdEdge { id, online });
        }
        if !edges.is_empty() {
            log.tell_nodes(edges);
        }
    }
}

impl Way<'_> {
    /// Takes an edge that a node tells the backend: this one at the end of the tick, or another
    /// one.
    fn for_backend(&mut self, cause: Cause, edge: IdEdge) {
        if self.presence.backend.get().is_none() {
            return;
        }
        if cause.is_own {
            self.batch.for_backend.push((cause.place, edge));
        } else if self.presence.is_settled() {
            // Before, what other nodes answer is news here alone.
            self.handover.keep(cause, edge);
        }
    }

    /// Takes that an id hides from now on, or is shown again: what it is for the backend.
    fn hidden(&mut self, cause: Cause, id: &Id, is_hidden: bool) {
        let key = self.router.graph().find(id);
        if key.is_some_and(|key| self.presence.online.is_online(key)) {
            let (id, online) = (id.clone(), !is_hidden);
            self.for_backend(cause, IdEdge { id, online });
        }
    }

    /// Takes that a node is gone. What it has not told is told by its heir, if it is still so.
    fn inherit(&mut self, node: NodeName, heir: Option<Cause>) {
        let graph = self.router.graph();
        let is_visible = |id: &Id| {
            let key = graph.find(id);
            key.is_some_and(|key| self.presence.online.is_visible(key))
        };
        for (place, edges) in self.handover.gone(node, heir) {
            let edges = edges.into_iter();
            let edges = edges.filter(|edge| is_visible(&edge.id) == edge.online);
            let edges = edges.map(|edge| (place, edge));
            self.batch.for_backend.extend(edges);
        }
    }

    /// Hands the edges that this node tells the backend on, those of a place together.
    fn tell_backend(&mut self) {
        let Some(backend) = self.presence.backend.get() else {
            return;
        };
        let mut edges = self.batch.for_backend.drain(..).peekable();
        while let Some((place, edge)) = edges.next() {
            let mut of_place = vec![edge];
            while let Some((_, edge)) = edges.next_if(|(other, _)| *other == place) {
                of_place.push(edge);
            }
            backend(place, &of_place);
        }
    }

    /// Sends the edges that were planned to the workers and the feed.
    fn flush(&mut self) {
        let batch = &mut *self.batch;
        self.presence.feed.push(&batch.for_feed);
        batch.for_feed.clear();
        let edges: Arc<[NamedEdge]> = batch.edges.drain(..).collect();
        // An id of a session may follow an edge's id by several of the session's ids.
        batch
            .recipients
            .sort_unstable_by_key(|&(session, edge)| (session.to_bits(), edge));
        batch.recipients.dedup();
        for group in batch
            .recipients
            .chunk_by(|(a, _), (b, _)| a.worker() == b.worker())
        {
            let mailbox = self.router.mailboxes().mailbox(group[0].0.worker());
            let parcel = EdgeParcel {
                edges: Arc::clone(&edges),
                recipients: group
                    .iter()
                    .map(|&(session, edge)| (session.key(), edge))
                    .collect(),
            };
            let weight = parcel.weight();
            match mailbox.post(Mail::Presence(parcel), weight) {
                Ok(()) => mailbox.ring(),
                Err(_) => mailbox.insert(Mail::PresenceSnapshots),
            }
        }
        batch.recipients.clear();
        batch
            .recipients
            .shrink_to(self.presence.limits.presence_recipients_max);
    }
}

impl Outlet for Way<'_> {
    fn release(&mut self, key: Key) {
        self.router.graph().release(key);
    }

    fn tell(&mut self, edge: Edge, is_bulk: bool) -> u64 {
        let Edge { key, online } = edge;
        let graph = self.router.graph();
        let Some(id) = graph.name(key) else {
            return 0;
        };
        let batch = &mut *self.batch;
        batch.for_feed.push(IdEdge {
            id: id.clone(),
            online,
        });
        let max = self.presence.settings.subscribers_max;
        let is_announced = online && graph.subscriber_count(key) <= max;
        // Before the subscribers are looked up: who logs in later reads it for its snapshot.
        let is_news = self.presence.online.set_announced(key, is_announced);
        let mut counts = self.presence.counts.lock();
        match (is_bulk, is_news) {
            (true, _) => counts.bulk += 1,
            (false, true) => counts.told += 1,
            (false, false) => counts.crowded += 1,
        }
        drop(counts);
        if is_news && !is_bulk && self.presence.asked.load(Ordering::SeqCst) > 0 {
            batch.sessions.clear();
            let (keys, sessions) = (&mut batch.keys, &mut batch.sessions);
            self.router.subscriber_sessions(key, keys, sessions);
            let number = batch.edges.len() as u32;
            let recipients = batch.sessions.iter();
            batch
                .recipients
                .extend(recipients.map(|&session| (session, number)));
            batch.edges.push(NamedEdge { key, id, online });
        } else {
            batch.sessions.clear();
        }
        let messages = batch.sessions.len() as u64;
        let most = self.presence.limits.presence_recipients_max;
        if batch.recipients.len() > most || batch.for_feed.len() > most {
            self.flush();
        }
        messages
    }

    fn tell_nodes(&mut self, edge: Edge) {
        if let Some(id) = self.router.graph().name(edge.key) {
            let online = edge.online;
            self.batch.to_nodes.push(IdEdge { id, online });
        }
    }

    fn caused(&mut self, cause: Cause, edge: Edge) {
        let Edge { key, online } = edge;
        if self.presence.online.is_hidden(key) {
            return;
        }
        if let Some(id) = self.router.graph().name(key) {
            self.for_backend(cause, IdEdge { id, online });
        }
    }
}
