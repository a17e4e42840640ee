//! Receipts: the results of this node's events at all nodes.
//!
//! Must never be silently incomplete: a node that did not answer is named.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::append::CommandResult;
use crate::incarnation::Incarnation;
use crate::message::{Answer, EventCounts};
use crate::position::StreamSequence;
use crate::table::Table;

/// Time that nodes have to answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Maximum number of entries with incomplete receipts: four times the number that one writer can
/// append in a second. Beyond it the oldest receipt is returned incomplete.
pub const AWAITED_MAX: usize = 16_384;

/// Maximum number of events in answers to entries that this node has not read yet. Beyond it the
/// answers to the oldest entry are dropped, and its receipt names those nodes as missing.
pub const EARLY_EVENTS_MAX: usize = 65_536;

/// Incomplete receipts of one node. `T` is a token that the caller gets back with a receipt. Owned
/// by the driver of the node.
#[derive(Debug)]
pub struct Receipts<T> {
    awaited: BTreeMap<StreamSequence, Awaited<T>>,
    /// Answers to entries that this node has not read yet.
    early: BTreeMap<StreamSequence, Vec<(Incarnation, Vec<EventCounts>)>>,
    early_events: usize,
    /// Sequence of the last entry that this node has read.
    read: StreamSequence,
}

/// Sum of the answers to an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt<T> {
    /// Sequence of the entry.
    pub sequence: StreamSequence,
    /// Token of the caller.
    pub token: T,
    /// Results of the entry's commands, with the sums over the nodes that answered.
    pub results: Vec<CommandResult>,
    /// Number of nodes that answered.
    pub nodes: u32,
    /// Names of the nodes that did not answer.
    pub missing: Vec<Box<str>>,
}

#[derive(Debug)]
struct Awaited<T> {
    token: T,
    results: Vec<CommandResult>,
    nodes: u32,
    unanswered: Vec<(Incarnation, Box<str>)>,
    missing: Vec<Box<str>>,
    until: Duration,
}

impl<T> Awaited<T> {
    fn add(&mut self, node: Incarnation, events: &[EventCounts]) {
        let mut unanswered = self.unanswered.iter();
        let Some(at) = unanswered.position(|(awaited, _)| *awaited == node) else {
            // A repeated answer, or one of a node that was not up at that entry.
            return;
        };
        self.unanswered.swap_remove(at);
        self.nodes += 1;
        for counts in events {
            let result = self.results.get_mut(usize::from(counts.index));
            if let Some(CommandResult::Event {
                online,
                written,
                queued,
                shed,
                ..
            }) = result
            {
                *online += u64::from(counts.online);
                *written += u64::from(counts.written);
                *queued += u64::from(counts.queued);
                *shed += u64::from(counts.shed);
            }
        }
    }

    fn finish(mut self, sequence: StreamSequence) -> Receipt<T> {
        let unanswered = self.unanswered.into_iter().map(|(_, name)| name);
        self.missing.extend(unanswered);
        self.missing.sort_unstable();
        Receipt {
            sequence,
            token: self.token,
            results: self.results,
            nodes: self.nodes,
            missing: self.missing,
        }
    }
}

impl<T> Default for Receipts<T> {
    fn default() -> Self {
        Self {
            awaited: BTreeMap::new(),
            early: BTreeMap::new(),
            early_events: 0,
            read: StreamSequence::ZERO,
        }
    }
}

impl<T> Receipts<T> {
    /// Begins to wait for the answers of all nodes of `table` to an entry of this node, which was
    /// applied just now. This node answers too, with [`answer`](Self::answer). `results` are those
    /// of the entry's commands, without counts of sessions. Returns the receipts that are complete,
    /// and those that were given up to keep within [`AWAITED_MAX`].
    pub fn expect(
        &mut self,
        now: Duration,
        sequence: StreamSequence,
        table: &Table,
        results: Vec<CommandResult>,
        token: T,
    ) -> Vec<Receipt<T>> {
        let members = table.members();
        let mut awaited = Awaited {
            token,
            results,
            nodes: 0,
            unanswered: members.map(|(id, it)| (id, it.name.clone())).collect(),
            missing: Vec::new(),
            until: now + ANSWER_TIME,
        };
        for (node, events) in self.take_early(sequence) {
            awaited.add(node, &events);
        }
        self.awaited.insert(sequence, awaited);
        self.read(sequence);
        let mut receipts = Vec::from_iter(self.take_complete(sequence));
        while self.awaited.len() > AWAITED_MAX {
            receipts.extend(self.finish_first());
        }
        receipts
    }

    /// Records that this node has read an entry. To be called after [`expect`](Self::expect) if it
    /// waits for answers to the entry, as early answers to entries up to this one are dropped.
    pub fn read(&mut self, sequence: StreamSequence) {
        self.read = self.read.max(sequence);
        while let Some(entry) = self.early.first_entry()
            && *entry.key() <= self.read
        {
            let answers = entry.remove();
            self.early_events -= charge(&answers);
        }
    }

    /// Records the answer of a node. Returns the receipt if it is complete.
    pub fn answer(&mut self, node: Incarnation, answer: Answer) -> Option<Receipt<T>> {
        let Answer { sequence, events } = answer;
        if sequence > self.read {
            self.early_events += 1 + events.len();
            let answers = self.early.entry(sequence).or_default();
            answers.push((node, events));
            self.bound_early();
            return None;
        }
        self.awaited.get_mut(&sequence)?.add(node, &events);
        self.take_complete(sequence)
    }

    /// Stops waiting for an incarnation that has gone. Returns the receipts that only it had not
    /// answered.
    pub fn gone(&mut self, node: Incarnation) -> Vec<Receipt<T>> {
        for awaited in self.awaited.values_mut() {
            let unanswered = &mut awaited.unanswered;
            if let Some(at) = unanswered.iter().position(|(awaited, _)| *awaited == node) {
                let (_, name) = unanswered.swap_remove(at);
                awaited.missing.push(name);
            }
        }
        let awaited = self.awaited.iter();
        let complete = awaited.filter(|(_, it)| it.unanswered.is_empty());
        let complete: Vec<_> = complete.map(|(&sequence, _)| sequence).collect();
        let complete = complete.into_iter();
        complete.filter_map(|it| self.take_complete(it)).collect()
    }

    /// Returns the receipts whose time is over.
    pub fn expire(&mut self, now: Duration) -> Vec<Receipt<T>> {
        let mut receipts = Vec::new();
        while self.deadline().is_some_and(|until| now >= until) {
            receipts.extend(self.finish_first());
        }
        receipts
    }

    /// Returns when the next receipt expires.
    pub fn deadline(&self) -> Option<Duration> {
        self.awaited.first_key_value().map(|(_, it)| it.until)
    }

    /// Returns the number of incomplete receipts.
    pub fn awaited(&self) -> usize {
        self.awaited.len()
    }

    fn take_complete(&mut self, sequence: StreamSequence) -> Option<Receipt<T>> {
        if !self.awaited.get(&sequence)?.unanswered.is_empty() {
            return None;
        }
        let complete = self.awaited.remove(&sequence)?;
        Some(complete.finish(sequence))
    }

    fn finish_first(&mut self) -> Option<Receipt<T>> {
        let (sequence, awaited) = self.awaited.pop_first()?;
        Some(awaited.finish(sequence))
    }

    fn take_early(&mut self, sequence: StreamSequence) -> Vec<(Incarnation, Vec<EventCounts>)> {
        let answers = self.early.remove(&sequence).unwrap_or_default();
        self.early_events -= charge(&answers);
        answers
    }

    fn bound_early(&mut self) {
        while self.early_events > EARLY_EVENTS_MAX
            && let Some((_, answers)) = self.early.pop_first()
        {
            self.early_events -= charge(&answers);
        }
    }
}

/// Returns the weight of answers against [`EARLY_EVENTS_MAX`]: their events, and one for each
/// answer.
fn charge(answers: &[(Incarnation, Vec<EventCounts>)]) -> usize {
    answers.iter().map(|(_, events)| 1 + events.len()).sum()
}
