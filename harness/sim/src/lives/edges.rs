//! Subscriptions, as far as they are known from changes that were acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use server::sim::Edges as Positions;

use super::publisher::Edge;

/// What is known of one subscription.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Whether the graph has it; `None` while that depends on changes under way.
    present: Option<bool>,
    /// Head of the history when it was known to be there.
    since: u64,
    /// The model's time at which `present` changed last.
    changed: u64,
    /// Changes under way.
    pending: usize,
    /// What was known before these.
    before: Option<bool>,
    /// Two of them were under way at a time: their order is not known.
    has_overlapped: bool,
    /// When the disk may have got the opposite: a change of it has failed.
    doubtful: Option<u64>,
}

/// All subscriptions between the ids of a life.
#[derive(Debug, Default)]
pub(super) struct Edges(BTreeMap<Edge, Known>);

impl Default for Known {
    fn default() -> Self {
        Self {
            present: Some(false),
            since: 0,
            changed: 0,
            pending: 0,
            before: Some(false),
            has_overlapped: false,
            doubtful: None,
        }
    }
}

impl Known {
    fn set(&mut self, present: Option<bool>, now: u64, head: u64) {
        if self.present != present {
            (self.present, self.changed, self.since) = (present, now, head);
        }
    }
}

impl Edges {
    /// A change is asked for.
    pub(super) fn begin(&mut self, edge: Edge, target: bool, now: u64) {
        let known = self.0.entry(edge).or_default();
        match known.pending {
            0 => (known.before, known.has_overlapped) = (known.present, false),
            _ => known.has_overlapped = true,
        }
        known.pending += 1;
        if known.present != Some(target) {
            known.set(None, now, 0);
        }
    }

    /// A change is answered; not `done`: with an error, and then nothing of it was done if it
    /// `is_whole`. Returns what was known before, if no other was under way.
    pub(super) fn end(
        &mut self,
        (edge, target): (Edge, bool),
        done: bool,
        is_whole: bool,
        (now, head): (u64, u64),
    ) -> Option<bool> {
        let known = self.0.entry(edge).or_default();
        known.pending -= 1;
        if known.has_overlapped {
            known.set(None, now, 0);
            return None;
        }
        let before = known.before;
        match done {
            true => known.set(Some(target), now, head),
            false if is_whole => {
                known.set(before, now, head);
                known.doubtful = (before != Some(target)).then_some(now).or(known.doubtful);
            }
            false if before != Some(target) => known.set(None, now, 0),
            false => {}
        }
        before
    }

    /// Whoever asked for a change has gone: it may be done, now or later.
    pub(super) fn abandon(&mut self, change: (Edge, bool), now: u64) {
        self.end(change, false, false, (now, 0));
    }

    /// A change that was asked for at a time is on the disk: failed ones from before are not.
    pub(super) fn settle(&mut self, begun: u64) {
        for known in self.0.values_mut() {
            known.doubtful = known.doubtful.filter(|&failed| failed >= begun);
        }
    }

    /// Whether an edge is there, if that was known all the time since `begun`.
    pub(super) fn known_since(&self, edge: Edge, begun: u64) -> Option<bool> {
        let known = self.0.get(&edge).copied().unwrap_or_default();
        known.present.filter(|_| known.changed < begun)
    }

    /// Whether an edge is there, if that is known now.
    pub(super) fn known(&self, edge: Edge) -> Option<bool> {
        self.known_since(edge, u64::MAX)
    }

    /// Subscribers of a subject, and itself: those that it has had all the time since `begun`, and
    /// those that it may have had.
    pub(super) fn subscribers(
        &self,
        subject: &'static str,
        begun: u64,
    ) -> [BTreeSet<&'static str>; 2] {
        let mut sets = [BTreeSet::from([subject]), BTreeSet::from([subject])];
        for edge in self.0.keys().filter(|edge| edge.1 == subject) {
            match self.known_since(*edge, begun) {
                Some(true) => sets.iter_mut().for_each(|set| set.extend([edge.0])),
                Some(false) => {}
                None => sets[1].extend([edge.0]),
            }
        }
        sets
    }

    /// Subscriptions that are there, each with the head when that was known.
    pub(super) fn positions(&self) -> Positions {
        let present = self.0.iter().filter(|(_, it)| it.present == Some(true));
        present.map(|(&edge, it)| (edge, it.since)).collect()
    }

    /// Takes what a disk has after a crash, or fails if that cannot be. Returns whether a change
    /// that was under way was made.
    pub(super) fn find(&mut self, edge: Edge, is_there: bool, head: u64) -> Option<bool> {
        let known = self.0.entry(edge).or_default();
        assert!(
            known.present.is_none_or(|it| it == is_there) || known.doubtful.is_some(),
            "{edge:?} is on the disk: {is_there}; {known:?}"
        );
        let was_under_way = known.present.is_none() && known.pending == 1 && !known.has_overlapped;
        let before = known.before;
        let since = match known.present {
            Some(true) => known.since,
            _ => head,
        };
        *known = Known {
            present: Some(is_there),
            since,
            ..Known::default()
        };
        before
            .filter(|_| was_under_way)
            .map(|before| before != is_there)
    }
}
