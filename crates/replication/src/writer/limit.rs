//! An engine that takes smaller messages than before.
//!
//! An entry that has a number must be stored before those after it count. If the engine does not
//! take it any more, only the end of the incarnation frees the writer of it.

use super::expiry::UNAVAILABLE;
use super::group::Group;
use super::options::WriterOptions;
use super::{Outgoing, Phase, Refused, Writer};
use crate::append::AppendError;
use crate::command::Command;
use crate::entry::{Entry, EntryHead};
use crate::incarnation::Incarnation;

impl<T> Writer<T> {
    /// Notes the largest message that the engine takes. Returns the appends that wait and are too
    /// large now, or share an entry that is: they do not count.
    pub fn limit(&mut self, entry_bytes_max: usize) -> Vec<Refused<T>> {
        let limit = WriterOptions::bounded(entry_bytes_max);
        self.options.entry_bytes_max = limit;
        let is_too_large = |group: &Group<T>| group.sent.is_none() && group.len() > limit;
        if !self.queue.iter().any(is_too_large) {
            return Vec::new();
        }
        let mut refused = Vec::new();
        for group in self.queue.iter_mut().filter(|group| is_too_large(group)) {
            // Of several in one entry each may fit alone: they may try again.
            let error = match group.appends() {
                1 => AppendError::TooLarge {
                    bytes: group.len() - EntryHead::BYTES,
                    max: limit - EntryHead::BYTES,
                },
                _ => UNAVAILABLE,
            };
            refused.extend(group.refuse(error));
        }
        // They were never sent under this incarnation, so no number is missing.
        self.queue.retain(|group| !is_too_large(group));
        self.waiting_bytes = self.queue.iter().map(|group| group.charge).sum();
        refused
    }

    /// Returns whether an entry that was sent is larger than the engine takes now. If no copy of it
    /// is stored, nothing after it can count.
    pub fn is_blocked(&self) -> bool {
        let is_too_large = |group: &Group<T>| group.len() > self.options.entry_bytes_max;
        let is_unsure = |group: &Group<T>| group.sent.is_some() && group.stored.is_none();
        matches!(self.phase, Phase::Live(_))
            && self
                .queue
                .iter()
                .any(|it| is_unsure(it) && is_too_large(it))
    }

    /// Returns two entries of `other`, an incarnation that was never used before, which end that of
    /// this writer and their own. When they are read back, the writer takes a new one, and appends
    /// what did not count again. `None` if there is nothing to end.
    pub fn end_incarnation(&self, other: Incarnation) -> Option<[Outgoing; 2]> {
        let Phase::Live(own) = self.phase else {
            return None;
        };
        let up = Command::NodeUp {
            name: self.options.name.clone(),
            version: self.options.version.clone(),
            after: self.read,
        };
        let gone = [own, other].map(|incarnation| Command::NodeGone { incarnation });
        let outgoing = |number, commands| {
            let entry = Entry {
                incarnation: other,
                number,
                commands,
            };
            let bytes = entry.encode().expect("name and version are bounded");
            Outgoing {
                incarnation: other,
                number,
                bytes,
            }
        };
        Some([outgoing(1, vec![up]), outgoing(2, gone.to_vec())])
    }
}
