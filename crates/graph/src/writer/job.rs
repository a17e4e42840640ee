//! A job: one submission of changes in the writer.
//!
//! Owns the results of its changes. Must never report a change as made before its commit.

use crate::batch::{Batch, Progress};
use crate::change::{Answer, Change, Effect};
use crate::error::GraphError;
use crate::rows::{self, RowChanges};

/// Changes of one submission. Lives until its callback is called.
pub(super) struct Job {
    changes: Vec<Change>,
    /// Changes of rows. A job that has them has no other changes, and one effect.
    rows: Option<RowChanges>,
    effects: Answer,
    /// Effect of the slices made so far of a large change.
    part: Effect,
    /// Number of effects that are durable.
    settled: usize,
    /// Whether the current commit has changes of this job.
    in_commit: bool,
    done: Box<dyn FnOnce(Answer) + Send>,
}

/// Reason why [`Job::advance`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advanced {
    /// All changes are in this batch or in earlier ones.
    Done,
    /// A slice of a large change is in the batch.
    Slice,
    /// The batch is full.
    Full,
}

impl Job {
    pub(super) fn new(changes: Vec<Change>, done: Box<dyn FnOnce(Answer) + Send>) -> Self {
        Self {
            effects: Answer::with_capacity(changes.len()),
            changes,
            rows: None,
            part: Effect::default(),
            settled: 0,
            in_commit: false,
            done,
        }
    }

    /// Creates a job that changes rows.
    pub(super) fn of_rows(rows: RowChanges, done: Box<dyn FnOnce(Answer) + Send>) -> Self {
        Self {
            rows: Some(rows),
            ..Self::new(Vec::new(), done)
        }
    }

    /// Returns the number of changes, or the weight of the rows in edges.
    pub(super) fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.changes.len(), rows::weight)
    }

    pub(super) const fn rows(&self) -> Option<&RowChanges> {
        self.rows.as_ref()
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
        if self.rows.is_some() {
            self.effects.push(Ok(Effect::default()));
        }
        Advanced::Done
    }

    /// Records that the commit succeeded.
    pub(super) fn settle(&mut self) {
        self.settled = self.effects.len();
        self.in_commit = false;
    }

    /// Returns whether the current commit has changes of this job.
    pub(super) const fn is_in_commit(&self) -> bool {
        self.in_commit
    }

    /// Records that the commit failed: the changes in it and all later ones of this job fail.
    pub(super) fn fail(&mut self, error: &GraphError) {
        self.effects.truncate(self.settled);
        let count = self.rows.as_ref().map_or(self.changes.len(), |_| 1);
        self.effects.resize_with(count, || Err(error.clone()));
    }

    pub(super) fn refuse(mut self, error: &GraphError) {
        self.fail(error);
        self.answer();
    }

    pub(super) fn answer(self) {
        (self.done)(self.effects);
    }
}
