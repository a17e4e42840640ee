//! One submission on its way through the writer.
//!
//! Owns what became of its changes so far. Must never report a change as made before its commit.

use crate::batch::{Batch, Progress};
use crate::change::{Answer, Change, Effect};
use crate::error::GraphError;

/// Lives from the submission to its answer.
pub(super) struct Job {
    changes: Vec<Change>,
    effects: Answer,
    /// Of a change that is done in slices, what is done.
    part: Effect,
    /// How many of the effects are durable.
    settled: usize,
    /// Whether anything of it is in the commit under way.
    in_commit: bool,
    done: Box<dyn FnOnce(Answer) + Send>,
}

/// How far a job came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advanced {
    /// All its changes are in the batch, or in those before.
    Done,
    /// A slice of a large change is in the batch.
    Slice,
    /// The batch has no more room.
    Full,
}

impl Job {
    pub(super) fn new(changes: Vec<Change>, done: Box<dyn FnOnce(Answer) + Send>) -> Self {
        Self {
            effects: Answer::with_capacity(changes.len()),
            changes,
            part: Effect::default(),
            settled: 0,
            in_commit: false,
            done,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Adds changes to the batch until it has `edges_max` edges.
    pub(super) fn advance(&mut self, batch: &mut Batch<'_>, edges_max: usize) -> Advanced {
        while let Some(change) = self.changes.get(self.effects.len()) {
            if batch.len() >= edges_max {
                return Advanced::Full;
            }
            self.in_commit = true;
            match batch.add(change) {
                Ok(Progress::Done(effect)) => {
                    self.part += effect;
                    self.effects.push(Ok(std::mem::take(&mut self.part)));
                }
                Ok(Progress::Slice(effect)) => {
                    self.part += effect;
                    return Advanced::Slice;
                }
                Err(error) => self.effects.push(Err(error)),
            }
        }
        Advanced::Done
    }

    /// The commit succeeded.
    pub(super) fn settle(&mut self) {
        self.settled = self.effects.len();
        self.in_commit = false;
    }

    /// Whether the commit under way has some of it.
    pub(super) const fn is_in_commit(&self) -> bool {
        self.in_commit
    }

    /// The commit failed: what was in it and what would come after it fails.
    pub(super) fn fail(&mut self, error: &GraphError) {
        self.effects.truncate(self.settled);
        self.effects
            .resize_with(self.changes.len(), || Err(error.clone()));
    }

    pub(super) fn refuse(mut self, error: &GraphError) {
        self.fail(error);
        self.answer();
    }

    pub(super) fn answer(self) {
        (self.done)(self.effects);
    }
}
