//! Notices to processes that asked for them at their login: which of the ids that they follow are
//! online, and that they have lost events.
//!
//! Notices wait until the connection to the process has room. Meanwhile, those for one process are
//! coalesced: lost events are counted, and a snapshot replaces unsent changes. So waiting notices
//! take a bounded number of bytes for each session.

use std::collections::HashMap;
use std::rc::Rc;

use graph::Id;
use reactor::SlotKey;
use router::Mailboxes;
use server::{ProcessEdge, SnapshotPlace};

use super::Node;
use crate::connections::DeliveryOutcome;
use crate::id_terms::IdTerms;
use crate::limits::{NOTICES_PER_TURN, SESSIONS_REAPED_PER_TURN, SNAPSHOT_KEYS_PER_TURN};
use crate::sessions::Snapshot;
use crate::term::write;

/// Value for an unknown number of lost events.
pub(crate) const LOST_UNKNOWN: u32 = u32::MAX;

/// Writes `{router_gap, Lost}`, where `Lost` is a number of events or `unknown`.
pub(super) fn gap(lost: u32) -> Rc<[u8]> {
    let mut out = Vec::with_capacity(32);
    write::tuple(&mut out, 2);
    write::atom(&mut out, "router_gap");
    match lost {
        LOST_UNKNOWN => write::atom(&mut out, "unknown"),
        lost => write::integer(&mut out, lost.into()),
    }
    out.into()
}

/// Writes `{presence, Id, online | offline}`.
fn edge(id_terms: &IdTerms, id: &Id, is_online: bool) -> Rc<[u8]> {
    let mut out = Vec::with_capacity(64);
    write::tuple(&mut out, 3);
    write::atom(&mut out, "presence");
    id_terms.write(&mut out, id);
    write::atom(&mut out, if is_online { "online" } else { "offline" });
    out.into()
}

/// Writes `{presence_snapshot, Ids, whole | first | next | last}`.
fn snapshot(id_terms: &IdTerms, ids: &[Id], is_first: bool, has_more: bool) -> Rc<[u8]> {
    let mut out = Vec::new();
    write::tuple(&mut out, 3);
    write::atom(&mut out, "presence_snapshot");
    if !ids.is_empty() {
        write::list(&mut out, ids.len());
        ids.iter().for_each(|id| id_terms.write(&mut out, id));
    }
    write::nil(&mut out);
    let part = match (is_first, has_more) {
        (true, false) => "whole",
        (true, true) => "first",
        (false, true) => "next",
        (false, false) => "last",
    };
    write::atom(&mut out, part);
    out.into()
}

impl<M: Mailboxes> Node<M> {
    /// Queues a session once, to be served when its connection has room.
    fn schedule(&mut self, slot: SlotKey) {
        if let Some(session) = self.sessions.get(slot)
            && !std::mem::replace(&mut session.is_scheduled, true)
        {
            self.notices.ready.push_back(slot);
        }
    }

    /// Schedules a presence snapshot for a session, from its beginning.
    pub(super) fn schedule_snapshot(&mut self, slot: SlotKey) {
        let snapshot = Snapshot {
            place: SnapshotPlace::default(),
            is_first: true,
        };
        self.notices.snapshots.insert(slot, snapshot);
        self.schedule(slot);
    }

    /// Schedules a presence snapshot for those of the sessions that asked for presence.
    pub(crate) fn schedule_snapshots(&mut self, slots: &[SlotKey]) {
        for &slot in slots {
            let session = self.sessions.get(slot);
            if session.is_some_and(|session| session.hears_presence) {
                self.schedule_snapshot(slot);
            }
        }
    }

    /// Schedules a presence snapshot for every session that asked for presence.
    pub(crate) const fn begin_snapshots(&mut self) {
        match self.notices.round {
            None => self.notices.round = Some(0),
            Some(_) => self.notices.has_next_round = true,
        }
    }

    /// Records that a session has lost events, if it asked for that notice.
    pub(super) fn note_loss(&mut self, slot: SlotKey, count: u32) {
        let session = self.sessions.get(slot);
        if let Some(session) = session.filter(|session| session.hears_gaps) {
            session.lost = session.lost.saturating_add(count);
            self.schedule(slot);
        }
    }

    /// Records events that were lost before they reached this thread.
    pub(crate) fn note_losses(&mut self, lost: &[(SlotKey, u64)]) {
        for &(slot, count) in lost {
            self.note_loss(slot, u32::try_from(count).unwrap_or(LOST_UNKNOWN));
        }
    }

    /// Records that every session may have lost events. All are marked at once, as each must get
    /// the notice before its next event.
    pub(crate) fn note_loss_by_any(&mut self) {
        for index in 0..self.sessions.slots() {
            if let Some((slot, _)) = self.sessions.at(index) {
                self.note_loss(slot, LOST_UNKNOWN);
            }
        }
    }

    /// Sends changes of presence to sessions. A session whose connection has no room gets a
    /// snapshot later.
    pub(crate) fn tell_presence<'a>(&mut self, edges: impl Iterator<Item = ProcessEdge<'a>>) {
        let mut messages = HashMap::<u32, Rc<[u8]>>::new();
        for told in edges {
            let Some(session) = self.sessions.get(told.session) else {
                continue;
            };
            if !session.hears_presence || session.keys().contains(&told.key) {
                continue;
            }
            let process = session.process;
            let id_terms = &self.id_terms;
            let message = messages.entry(told.number);
            let message = message.or_insert_with(|| edge(id_terms, told.id, told.online));
            let is_sent = self.connections.has_room(process.connection)
                && self.connections.deliver(process, message) != DeliveryOutcome::Shed;
            if !is_sent {
                self.schedule_snapshot(told.session);
            }
        }
    }

    /// Sends notices to sessions whose connections have room, a bounded number in each turn.
    pub(crate) fn serve_notices(&mut self) {
        self.continue_round();
        let waiting = &mut self.notices.waiting;
        let ready = &mut self.notices.ready;
        waiting.retain(|&connection, slots| {
            let stays = !self.connections.may_go_on(connection);
            if !stays {
                ready.extend(slots.drain(..));
            }
            stays
        });
        let mut keys_left = SNAPSHOT_KEYS_PER_TURN;
        for _ in 0..NOTICES_PER_TURN {
            if keys_left == 0 {
                return;
            }
            let Some(slot) = self.notices.ready.pop_front() else {
                return;
            };
            let Some(session) = self.sessions.get(slot) else {
                continue;
            };
            let process = session.process;
            if !self.connections.may_go_on(process.connection) {
                let waiting = self.notices.waiting.entry(process.connection);
                waiting.or_default().push(slot);
                continue;
            }
            session.is_scheduled = false;
            if session.lost > 0 {
                let notice = gap(session.lost);
                match self.connections.deliver(process, &notice) {
                    // The node is disconnected, and with it the process.
                    DeliveryOutcome::Shed => continue,
                    DeliveryOutcome::Written | DeliveryOutcome::Queued => session.lost = 0,
                }
            }
            keys_left -= self.send_snapshot(slot, keys_left);
        }
    }

    /// Sends the next part of a session's snapshot, if one is due. Returns the number of
    /// subscriptions checked.
    fn send_snapshot(&mut self, slot: SlotKey, limit: usize) -> usize {
        let Some(Snapshot { place, is_first }) = self.notices.snapshots.remove(&slot) else {
            return 0;
        };
        // Until presence is known, all sessions get their snapshot later.
        let presence = self.config.presence.as_ref();
        let Some(presence) = presence.filter(|presence| presence.is_settled()) else {
            return 0;
        };
        let Some(session) = self.sessions.get(slot) else {
            return 0;
        };
        let graph = self.router.graph();
        let (ids, checked, next) = presence.snapshot(graph, session.keys(), place, limit);
        let has_piece = next.is_none() || !ids.is_empty();
        if has_piece {
            let piece = snapshot(&self.id_terms, &ids, is_first, next.is_some());
            let _ = self.connections.deliver(session.process, &piece);
        }
        if let Some(place) = next {
            let is_first = is_first && !has_piece;
            let rest = Snapshot { place, is_first };
            self.notices.snapshots.insert(slot, rest);
            self.schedule(slot);
        }
        checked
    }

    /// Continues the round, if there is one: schedules snapshots for sessions that asked for
    /// presence.
    fn continue_round(&mut self) {
        let Some(from) = self.notices.round else {
            return;
        };
        let slots = self.sessions.slots();
        let to = from.saturating_add(SESSIONS_REAPED_PER_TURN).min(slots);
        for index in from..to {
            if let Some((slot, session)) = self.sessions.at(index)
                && session.hears_presence
            {
                self.schedule_snapshot(slot);
            }
        }
        self.notices.round = (to < slots).then_some(to);
        if self.notices.round.is_none() && std::mem::take(&mut self.notices.has_next_round) {
            self.notices.round = Some(0);
        }
    }
}
