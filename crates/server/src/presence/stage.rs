//! What workers do with edges: notices to the sessions that asked, and snapshots.

use std::collections::VecDeque;
use std::ops::Range;

use graph::Id;
use hashbrown::HashMap;
use reactor::{Driver, Mailbox, SlotKey};
use wire::encoding::Encoding;
use wire::event::Subject;
use wire::frame::{self, Frame};
use wire::notice::Notice;

use super::edges::EdgeParcel;
use super::keeper::Presence;
use super::snapshot::{SnapshotPlace, walk};
use crate::frames::{push, wire_subject};
use crate::mail::Mail;
use crate::open_session::Session;
use crate::session::Sessions;
use crate::stage::Stage;
use crate::stats::Metric;
use crate::table::{ConnectionTable, Phase};

/// Presence of a worker's sessions.
#[derive(Debug, Default)]
pub(crate) struct PresenceStage {
    parcels: VecDeque<EdgesInFlight>,
    /// Snapshots under way, by slot: one for each session at most.
    snapshots: HashMap<u32, Snapshot>,
    /// Their slots, in the order in which they are served.
    ready: VecDeque<u32>,
    /// The slot to look at next, while each session that asked gets a new snapshot.
    round: Option<u32>,
    /// Whether there must be another round.
    again: bool,
    /// Working memory: a piece of a snapshot.
    out: Vec<u8>,
    group: Group,
}

/// Working memory: sessions that are sent edges one after the other.
#[derive(Debug, Default)]
struct Group {
    /// Those who asked, each with its place among the recipients of the parcel.
    sessions: Vec<(SlotKey, Session, Range<usize>)>,
    /// Their notices, those of a session in a row.
    bytes: Vec<u8>,
    /// Where the notices of each session end.
    ends: Vec<usize>,
}

/// Edges that a worker has taken.
#[derive(Debug)]
struct EdgesInFlight {
    parcel: EdgeParcel,
    /// Recipients before it are served.
    next: usize,
    /// Notices, each encoded at most once for each encoding.
    bytes: Vec<u8>,
    frames: HashMap<(u32, Encoding), Frame>,
}

/// Snapshot of a session that is not sent, or not to its end.
#[derive(Debug, Clone, Copy)]
struct Snapshot {
    key: SlotKey,
    place: SnapshotPlace,
    is_first: bool,
    /// The session's socket is full.
    waits: bool,
}

impl Stage for PresenceStage {
    fn has_work(&self) -> bool {
        !self.parcels.is_empty() || !self.ready.is_empty() || self.round.is_some()
    }

    fn forget(&mut self, key: SlotKey) {
        if !self.snapshots.is_empty()
            && self
                .snapshots
                .get(&key.index)
                .is_some_and(|it| it.key == key)
        {
            // Its place among those that are ready is passed over.
            self.snapshots.remove(&key.index);
        }
    }
}

impl PresenceStage {
    /// Queues edges.
    pub(crate) fn add(&mut self, parcel: EdgeParcel) {
        self.parcels.push_back(EdgesInFlight {
            parcel,
            next: 0,
            bytes: Vec::new(),
            frames: HashMap::new(),
        });
    }

    /// Sends a snapshot to each session that asked.
    pub(crate) const fn begin_round(&mut self) {
        match self.round {
            None => self.round = Some(0),
            Some(_) => self.again = true,
        }
    }

    /// Sends a session a snapshot, from its beginning.
    pub(crate) fn ask(&mut self, key: SlotKey) {
        let snapshot = Snapshot {
            key,
            place: SnapshotPlace::default(),
            is_first: true,
            waits: false,
        };
        let before = self.snapshots.insert(key.index, snapshot);
        if before.is_none_or(|before| before.waits) {
            self.ready.push_back(key.index);
        }
    }

    /// Sends those of the sessions that asked a snapshot.
    pub(crate) fn ask_all<D: Driver>(&mut self, table: &ConnectionTable<D>, sessions: &[SlotKey]) {
        for &key in sessions {
            if open_session(table, key).is_some() {
                self.ask(key);
            }
        }
    }

    /// Goes on with a session whose socket was full.
    pub(crate) fn resume(&mut self, key: SlotKey) {
        if let Some(snapshot) = self.snapshots.get_mut(&key.index)
            && snapshot.key == key
            && snapshot.waits
        {
            snapshot.waits = false;
            self.ready.push_back(key.index);
        }
    }

    /// Returns whether nothing is kept.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_work() && self.snapshots.is_empty()
    }

    /// Sends a turn's worth of edges and snapshots.
    pub(crate) fn serve<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &Sessions,
        mailbox: &Mailbox<Mail>,
    ) {
        self.send_edges(table, sessions, mailbox);
        self.go_round(table);
        if !self.ready.is_empty()
            && let Some(presence) = sessions.presence()
        {
            self.send_snapshots(table, sessions, presence);
        }
        if !self.has_work() && self.snapshots.is_empty() {
            *self = Self::default();
        }
    }

    fn send_edges<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &Sessions,
        mailbox: &Mailbox<Mail>,
    ) {
        let mut budget = table.limits.presence_recipients_per_turn;
        while budget > 0
            && let Some(mut edges) = self.parcels.pop_front()
        {
            while budget > 0 && edges.next < edges.parcel.recipients.len() {
                let before = edges.next;
                self.visit(table, &mut edges, budget);
                budget = budget.saturating_sub(edges.next - before);
                self.group.encode(table, sessions, &mut edges);
                self.group.send(table);
            }
            assert!(
                edges.next <= edges.parcel.recipients.len(),
                "each is served once"
            );
            match edges.next < edges.parcel.recipients.len() {
                true => self.parcels.push_front(edges),
                false => mailbox.release(edges.parcel.weight()),
            }
        }
    }

    /// Takes the next sessions of a parcel, at most as many as are sent to in a row. Looks at
    /// records alone, so that the processor fetches several of them at a time.
    fn visit<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        edges: &mut EdgesInFlight,
        recipients_max: usize,
    ) {
        self.group.sessions.clear();
        let end = edges.next.saturating_add(recipients_max);
        for _ in 0..table.limits.sessions_per_flush {
            if edges.next >= end {
                return;
            }
            let Some((key, own)) = edges.take_session() else {
                return;
            };
            match open_session(table, key) {
                // It will get a snapshot in place of all that it is not told now.
                Some((_, true)) => self.ask(key),
                Some((session, false)) => self.group.sessions.push((key, session, own)),
                None => {}
            }
        }
    }

    /// Looks for sessions that asked, if each of them is to get a snapshot.
    fn go_round<D: Driver>(&mut self, table: &ConnectionTable<D>) {
        let Some(from) = self.round else {
            return;
        };
        if self.ready.len() >= table.limits.presence_snapshots_per_turn {
            return;
        }
        let to = from
            .saturating_add(table.limits.presence_slots_per_turn)
            .min(table.slots());
        for index in from..to {
            if let Some((key, connection)) = table.at(index)
                && let Phase::Open(session) = connection.phase
                && session.marks.hears_presence()
            {
                self.ask(key);
            }
        }
        self.round = (to < table.slots()).then_some(to);
        if self.round.is_none() && std::mem::take(&mut self.again) {
            self.round = Some(0);
        }
    }

    fn send_snapshots<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &Sessions,
        presence: &Presence,
    ) {
        let mut keys_left = table.limits.presence_snapshot_keys_per_turn;
        for _ in 0..self
            .ready
            .len()
            .min(table.limits.presence_snapshots_per_turn)
        {
            if keys_left == 0 {
                return;
            }
            let Some(index) = self.ready.pop_front() else {
                return;
            };
            let Some(snapshot) = self.snapshots.get_mut(&index) else {
                continue;
            };
            if snapshot.waits {
                continue;
            }
            let Some((session, is_blocked)) = open_session(table, snapshot.key) else {
                self.snapshots.remove(&index);
                continue;
            };
            if is_blocked {
                snapshot.waits = true;
                continue;
            }
            let (graph, own) = (sessions.graph(), sessions.keys(index, &session));
            let (from, mut ids) = (snapshot.place, Vec::new());
            let online = presence.online();
            let limits = (keys_left, table.limits.presence_ids_max);
            let (looked_at, next) = walk(graph, online, own, from, limits, &mut ids);
            keys_left -= looked_at;
            if next.is_none() || !ids.is_empty() {
                let first = std::mem::replace(&mut snapshot.is_first, false);
                let key = snapshot.key;
                push_piece(session, &ids, first, next.is_some(), &mut self.out);
                table.stats.add(Metric::PresenceSnapshots, u64::from(first));
                table.send(key, &self.out);
            }
            match next {
                None => {
                    self.snapshots.remove(&index);
                }
                Some(place) => {
                    snapshot.place = place;
                    self.ready.push_back(index);
                }
            }
        }
    }
}

impl Group {
    /// Encodes the notices of all sessions.
    fn encode<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        sessions: &Sessions,
        edges: &mut EdgesInFlight,
    ) {
        self.bytes.clear();
        self.ends.clear();
        let mut notices = 0;
        for (key, session, own) in &self.sessions {
            let keys = sessions.keys(key.index, session);
            for at in own.clone() {
                let (_, nth) = edges.parcel.recipients[at];
                if !keys.contains(&edges.parcel.edges[nth as usize].key) {
                    let range = edges.encode(nth, *session);
                    self.bytes.extend_from_slice(&edges.bytes[range]);
                    notices += 1;
                }
            }
            self.ends.push(self.bytes.len());
        }
        table.stats.add(Metric::PresenceNotices, notices);
    }

    /// Sends each session its notices. Before its first system call all that the group needs is in
    /// the cache: each call leaves the processor to wait for whatever is fetched after it.
    fn send<D: Driver>(&self, table: &mut ConnectionTable<D>) {
        let mut start = 0;
        for (&(key, ..), &end) in self.sessions.iter().zip(&self.ends) {
            table.send(key, &self.bytes[start..end]);
            start = end;
        }
    }
}

impl EdgesInFlight {
    /// Takes the next session, with its place among the recipients.
    fn take_session(&mut self) -> Option<(SlotKey, Range<usize>)> {
        let rest = &self.parcel.recipients[self.next..];
        let &(first, _) = rest.first()?;
        let count = rest.iter().take_while(|&&(key, _)| key == first).count();
        let start = self.next;
        self.next += count;
        Some((first, start..self.next))
    }

    /// Returns the range of an edge's notice for a session among the encoded bytes.
    fn encode(&mut self, nth: u32, session: Session) -> Range<usize> {
        let edge = &self.parcel.edges[nth as usize];
        let bytes = &mut self.bytes;
        let encoded = self.frames.entry((nth, session.encoding));
        let frame = encoded.or_insert_with(|| {
            let id = wire_subject(&edge.id);
            let notice = match edge.online {
                true => Notice::Online { id },
                false => Notice::Offline { id },
            };
            frame::notice(session.encoding, &notice, bytes)
        });
        frame.range(session.framing)
    }
}

/// Returns the session of a connection that asked, and whether its socket is full.
fn open_session<D: Driver>(table: &ConnectionTable<D>, key: SlotKey) -> Option<(Session, bool)> {
    let connection = table.get(key)?;
    match connection.phase {
        Phase::Open(session) if session.marks.hears_presence() => {
            Some((session, connection.blocked))
        }
        _ => None,
    }
}

/// Writes a piece of a snapshot.
fn push_piece(session: Session, ids: &[Id], first: bool, more: bool, out: &mut Vec<u8>) {
    let online: Vec<Subject<'_>> = ids.iter().map(wire_subject).collect();
    let notice = Notice::Presence {
        online: &online,
        first,
        more,
    };
    out.clear();
    push(out, |out| {
        frame::notice(session.encoding, &notice, out).range(session.framing)
    });
}
