//! Handling of an engine whose limit for messages was lowered.
//!
//! An entry with a number must be stored before later ones count. If the engine no longer accepts
//! it, the writer can only continue under a new incarnation.

use super::group::Group;
use super::options::WriterOptions;
use super::{Outgoing, Phase, Refused, UNAVAILABLE, Writer, outgoing};
use crate::append::AppendError;
use crate::command::Command;
use crate::entry::EntryHead;
use crate::incarnation::Incarnation;

impl<T> Writer<T> {
    /// Sets the maximum size of a message, as the engine reports it. Returns the waiting appends
    /// whose entry is too large now; they do not count.
    pub fn limit(&mut self, entry_bytes_max: usize) -> Vec<Refused<T>> {
        let limit = WriterOptions::bounded(entry_bytes_max);
        self.options.entry_bytes_max = limit;
        let is_too_large = |group: &Group<T>| group.sent.is_none() && group.len() > limit;
        if !self.queue.iter().any(is_too_large) {
            return Vec::new();
        }
        let mut refused = Vec::new();
        for group in self.queue.iter_mut().filter(|group| is_too_large(group)) {
            // If several share an entry, each may fit alone, so they may be tried again.
            let error = match group.appends() {
                1 => AppendError::TooLarge {
                    bytes: group.len() - EntryHead::BYTES,
                    max: limit - EntryHead::BYTES,
                },
                _ => UNAVAILABLE,
            };
            refused.extend(group.refuse(error));
        }
        // They were never sent under this incarnation, so their removal leaves no gap in the
        // numbers.
        self.queue.retain(|group| !is_too_large(group));
        self.waiting_bytes = self.queue.iter().map(|group| group.charge).sum();
        refused
    }

    /// Returns whether an entry that was sent, but not acknowledged, is larger than the engine
    /// accepts now. If no copy of it is stored, no later entry can count.
    pub fn is_blocked(&self) -> bool {
        let is_too_large = |group: &Group<T>| group.len() > self.options.entry_bytes_max;
        let is_unsure = |group: &Group<T>| group.sent.is_some() && group.stored.is_none();
        matches!(self.phase, Phase::Live(_))
            && self
                .queue
                .iter()
                .any(|it| is_unsure(it) && is_too_large(it))
    }

    /// Returns two entries that end the incarnation of this writer. They are written under `other`,
    /// an incarnation that must never have been used before and that they end, too. When they are
    /// read back, the writer continues under a new incarnation and appends again what did not
    /// count. `None` if the writer has no live incarnation.
    pub fn end_incarnation(&self, other: Incarnation) -> Option<[Outgoing; 2]> {
        let Phase::Live(own) = self.phase else {
            return None;
        };
        let gone = [own, other].map(|incarnation| Command::NodeGone { incarnation });
        Some([
            outgoing(other, 1, vec![self.node_up()]),
            outgoing(other, 2, gone.to_vec()),
        ])
    }
}
