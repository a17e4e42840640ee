//! Snapshots: which of a session's subscriptions are online.
//!
//! A snapshot shows what was announced, and not who has a session: only of what was announced is it
//! told later that it went offline.

use graph::{Graph, Id, Key};
use presence::Online;
use wire::event::Subject;
use wire::notice::Notice;

use crate::frames::wire_subject;
use crate::limits::Limits;

/// Place in the subscriptions of several ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotPlace {
    /// Which of the session's ids.
    nth: u16,
    /// Its subscription that was looked at last.
    after: Option<Key>,
}

/// Looks at the next `limit` subscriptions of `own` ids from `place` on, and appends those that are
/// announced to `ids`, which holds a piece at most. Returns the number of subscriptions looked at,
/// and the place to go on from; `None` at the end.
pub(super) fn walk(
    graph: &Graph,
    online: &Online,
    own: &[Key],
    place: SnapshotPlace,
    (keys_max, ids_max): (usize, usize),
    ids: &mut Vec<Id>,
) -> (usize, Option<SnapshotPlace>) {
    let SnapshotPlace { mut nth, mut after } = place;
    let mut looked_at = 0;
    let mut keys = Vec::new();
    while let Some(&subscriber) = own.get(usize::from(nth)) {
        let step = (keys_max - looked_at).min(ids_max - ids.len());
        if step == 0 {
            return (looked_at, Some(SnapshotPlace { nth, after }));
        }
        keys.clear();
        graph.subscriptions(subscriber, after, step, &mut keys);
        looked_at += keys.len();
        let announced = keys.iter().copied();
        let announced = announced.filter(|&key| online.is_announced(key) && !own.contains(&key));
        ids.extend(announced.filter_map(|key| graph.name(key)));
        after = keys.last().copied();
        if keys.len() < step {
            (nth, after) = (nth + 1, None);
        }
    }
    (looked_at, None)
}

/// Returns the elements of a poll's answer that are its snapshot, with commas between them. Empty
/// while it is not known who is online.
pub(crate) fn for_poll(online: &Online, graph: &Graph, own: &[Key], limits: &Limits) -> Vec<u8> {
    let mut out = Vec::new();
    if !online.is_settled() {
        return out;
    }
    let (mut left, mut place) = (
        limits.presence_poll_keys_max,
        Some(SnapshotPlace::default()),
    );
    let mut ids = Vec::new();
    while let Some(from) = place.filter(|_| left > 0) {
        let first = out.is_empty();
        ids.clear();
        let (looked_at, next) = walk(
            graph,
            online,
            own,
            from,
            (left, limits.presence_ids_max),
            &mut ids,
        );
        left -= looked_at;
        place = next;
        if !first {
            out.push(b',');
        }
        let names: Vec<Subject<'_>> = ids.iter().map(wire_subject).collect();
        Notice::Presence {
            online: &names,
            first,
            more: place.is_some(),
        }
        .push_object(&mut out);
    }
    out
}
