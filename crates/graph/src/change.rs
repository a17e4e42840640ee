//! Changes of the graph, and their results.
//!
//! Must never use keys: a change refers to ids until it is executed.

use crate::error::GraphError;
use crate::id::Id;

/// Change of the graph. Owned by the graph until it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The subscriber receives what is published about the subject from now on.
    Subscribe {
        /// The subscriber.
        subscriber: Id,
        /// The subject.
        subject: Id,
    },
    /// The subscriber no longer receives what is published about the subject.
    Unsubscribe {
        /// The subscriber.
        subscriber: Id,
        /// The subject.
        subject: Id,
    },
    /// The subscriber is subscribed to exactly `subjects`, ignoring repetitions: missing
    /// subscriptions are added and others removed, atomically. The subscriber's own id counts as
    /// unchanged, as every id is subscribed to itself.
    Replace {
        /// The subscriber.
        subscriber: Id,
        /// All subjects; an empty list removes every subscription.
        subjects: Vec<Id>,
    },
    /// Removes every edge of the id, in both directions. Very many edges are removed in slices,
    /// each of which is durable separately; edges that are added between two slices may stay.
    Remove {
        /// The id that loses its edges.
        id: Id,
    },
}

/// Numbers of edges that a change affected. The change is durable when this is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effect {
    /// Edges added.
    pub added: usize,
    /// Edges removed.
    pub removed: usize,
    /// Edges that already were in the requested state.
    pub unchanged: usize,
}

/// Results of the changes of one submission, in order. A change that failed changed nothing, except
/// a [`Change::Remove`] in slices.
pub type Answer = Vec<Result<Effect, GraphError>>;

impl Effect {
    pub(crate) const ADDED: Self = Self::of(1, 0, 0);
    pub(crate) const REMOVED: Self = Self::of(0, 1, 0);
    pub(crate) const UNCHANGED: Self = Self::of(0, 0, 1);

    const fn of(added: usize, removed: usize, unchanged: usize) -> Self {
        Self {
            added,
            removed,
            unchanged,
        }
    }

    /// Returns whether an edge was added or removed.
    pub const fn changed(&self) -> bool {
        self.added + self.removed > 0
    }
}

impl std::ops::AddAssign for Effect {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.removed += other.removed;
        self.unchanged += other.unchanged;
    }
}
