//! Metrics of a graph on disk.

use super::{Changes, Graph};
use crate::store::Commits;

impl Graph {
    /// Returns the counts of commits to disk; `None` if the graph is in memory only.
    pub fn commits(&self) -> Option<Commits> {
        self.memory.commits.get().map(|commits| commits.read())
    }

    /// Returns the number of changes that wait for a commit and its answer. Changes of a replicated
    /// log wait in the log and are not counted.
    pub fn waiting_changes(&self) -> usize {
        match &self.changes {
            Changes::Durable(writer) => writer.waiting(),
            Changes::Direct(_) | Changes::Replicated(_) => 0,
        }
    }
}
